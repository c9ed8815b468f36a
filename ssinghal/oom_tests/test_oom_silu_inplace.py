import pytest

pytestmark = pytest.mark.operator("silu_inplace")


def test_oom_silu_inplace(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_silu_inplace(case, estimate):
    estimate(case)
