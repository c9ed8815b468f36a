import pytest

pytestmark = pytest.mark.operator("sum")


def test_oom_sum(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sum(case, estimate):
    estimate(case)
