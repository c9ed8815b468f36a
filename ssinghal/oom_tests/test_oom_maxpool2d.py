import pytest

pytestmark = pytest.mark.operator("maxpool2d")


def test_oom_maxpool2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_maxpool2d(case, estimate):
    estimate(case)
