import pytest

pytestmark = pytest.mark.operator("ceil")


def test_oom_ceil(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_ceil(case, estimate):
    estimate(case)
