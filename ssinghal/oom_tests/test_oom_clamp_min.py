import pytest

pytestmark = pytest.mark.operator("clamp_min")


def test_oom_clamp_min(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_clamp_min(case, estimate):
    estimate(case)
