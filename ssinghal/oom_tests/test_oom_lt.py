import pytest

pytestmark = pytest.mark.operator("lt")


def test_oom_lt(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_lt(case, estimate):
    estimate(case)
