import pytest

pytestmark = pytest.mark.operator("upsample_nearest3d")


def test_oom_upsample_nearest3d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_upsample_nearest3d(case, estimate):
    estimate(case)
