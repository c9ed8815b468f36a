import pytest

pytestmark = pytest.mark.operator("rsqrt")


def test_oom_rsqrt(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_rsqrt(case, estimate):
    estimate(case)
