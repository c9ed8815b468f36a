import pytest

pytestmark = pytest.mark.operator("gelu")


def test_oom_gelu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_gelu(case, estimate):
    estimate(case)
