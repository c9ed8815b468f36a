import pytest

pytestmark = pytest.mark.operator("min")


def test_oom_min(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_min(case, estimate):
    estimate(case)
