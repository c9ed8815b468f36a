import pytest

pytestmark = pytest.mark.operator("logical_not")


def test_oom_logical_not(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_logical_not(case, estimate):
    estimate(case)
