import pytest

pytestmark = pytest.mark.operator("adaptive_max_pool2d")


def test_oom_adaptive_max_pool2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_adaptive_max_pool2d(case, estimate):
    estimate(case)
