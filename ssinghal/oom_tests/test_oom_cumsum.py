import pytest

pytestmark = pytest.mark.operator("cumsum")


def test_oom_cumsum(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_cumsum(case, estimate):
    estimate(case)
