import pytest

pytestmark = pytest.mark.operator("max")


def test_oom_max(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_max(case, estimate):
    estimate(case)
