import pytest

pytestmark = pytest.mark.operator("logical_or")


def test_oom_logical_or(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_logical_or(case, estimate):
    estimate(case)
