import pytest

pytestmark = pytest.mark.operator("repeat")


def test_oom_repeat(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_repeat(case, estimate):
    estimate(case)
