import pytest

pytestmark = pytest.mark.operator("conv_transpose2d")


def test_oom_conv_transpose2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_conv_transpose2d(case, estimate):
    estimate(case)
