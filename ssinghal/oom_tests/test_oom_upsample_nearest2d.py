import pytest

pytestmark = pytest.mark.operator("upsample_nearest2d")


def test_oom_upsample_nearest2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_upsample_nearest2d(case, estimate):
    estimate(case)
