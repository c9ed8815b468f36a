import pytest

pytestmark = pytest.mark.operator("convolution")


def test_oom_convolution(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_convolution(case, estimate):
    estimate(case)
