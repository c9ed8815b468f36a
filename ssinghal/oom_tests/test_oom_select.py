import pytest

pytestmark = pytest.mark.operator("select")


def test_oom_select(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_select(case, estimate):
    estimate(case)
