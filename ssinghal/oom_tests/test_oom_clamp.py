import pytest

pytestmark = pytest.mark.operator("clamp")


def test_oom_clamp(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_clamp(case, estimate):
    estimate(case)
