import pytest

pytestmark = pytest.mark.operator("silu")


def test_oom_silu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_silu(case, estimate):
    estimate(case)
