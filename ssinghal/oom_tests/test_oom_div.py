import pytest

pytestmark = pytest.mark.operator("div")


def test_oom_div(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_div(case, estimate):
    estimate(case)
