import pytest

pytestmark = pytest.mark.operator("where")


def test_oom_where(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_where(case, estimate):
    estimate(case)
