import pytest

pytestmark = pytest.mark.operator("leakyrelu")


def test_oom_leakyrelu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_leakyrelu(case, estimate):
    estimate(case)
