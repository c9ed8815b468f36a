import pytest

pytestmark = pytest.mark.operator("avg_pool2d")


def test_oom_avg_pool2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_avg_pool2d(case, estimate):
    estimate(case)
