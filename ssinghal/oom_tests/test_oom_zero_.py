import pytest

pytestmark = pytest.mark.operator("zero_")


def test_oom_zero_(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_zero_(case, estimate):
    estimate(case)
