import pytest

pytestmark = pytest.mark.operator("roll")


def test_oom_roll(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_roll(case, estimate):
    estimate(case)
