import pytest

pytestmark = pytest.mark.operator("exp")


def test_oom_exp(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_exp(case, estimate):
    estimate(case)
