import pytest

pytestmark = pytest.mark.operator("hardswish")


def test_oom_hardswish(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_hardswish(case, estimate):
    estimate(case)
