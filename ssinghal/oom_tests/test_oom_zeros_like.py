import pytest

pytestmark = pytest.mark.operator("zeros_like")


def test_oom_zeros_like(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_zeros_like(case, estimate):
    estimate(case)
