import pytest

pytestmark = pytest.mark.operator("abs")


def test_oom_abs(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_abs(case, estimate):
    estimate(case)
