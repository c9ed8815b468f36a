import pytest

pytestmark = pytest.mark.operator("zeros")


def test_oom_zeros(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_zeros(case, estimate):
    estimate(case)
