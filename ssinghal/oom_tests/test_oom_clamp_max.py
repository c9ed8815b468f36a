import pytest

pytestmark = pytest.mark.operator("clamp_max")


def test_oom_clamp_max(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_clamp_max(case, estimate):
    estimate(case)
