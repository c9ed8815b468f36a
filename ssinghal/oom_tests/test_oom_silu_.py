import pytest

pytestmark = pytest.mark.operator("silu_")


def test_oom_silu_(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_silu_(case, estimate):
    estimate(case)
