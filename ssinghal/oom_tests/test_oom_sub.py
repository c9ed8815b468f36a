import pytest

pytestmark = pytest.mark.operator("sub")


def test_oom_sub(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sub(case, estimate):
    estimate(case)
