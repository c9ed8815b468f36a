import pytest

pytestmark = pytest.mark.operator("mean")


def test_oom_mean(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_mean(case, estimate):
    estimate(case)
