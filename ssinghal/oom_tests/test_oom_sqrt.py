import pytest

pytestmark = pytest.mark.operator("sqrt")


def test_oom_sqrt(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sqrt(case, estimate):
    estimate(case)
