import pytest

pytestmark = pytest.mark.operator("reciprocal")


def test_oom_reciprocal(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_reciprocal(case, estimate):
    estimate(case)
