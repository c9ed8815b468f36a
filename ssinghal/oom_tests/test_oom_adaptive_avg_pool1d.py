import pytest

pytestmark = pytest.mark.operator("adaptive_avg_pool1d")


def test_oom_adaptive_avg_pool1d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_adaptive_avg_pool1d(case, estimate):
    estimate(case)
