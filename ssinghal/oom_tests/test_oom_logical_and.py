import pytest

pytestmark = pytest.mark.operator("logical_and")


def test_oom_logical_and(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_logical_and(case, estimate):
    estimate(case)
