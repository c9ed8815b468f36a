import pytest

pytestmark = pytest.mark.operator("repeat_interleave")


def test_oom_repeat_interleave(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_repeat_interleave(case, estimate):
    estimate(case)
