import pytest

pytestmark = pytest.mark.operator("mul")


def test_oom_mul(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_mul(case, estimate):
    estimate(case)
