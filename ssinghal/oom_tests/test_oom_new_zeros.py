import pytest

pytestmark = pytest.mark.operator("new_zeros")


def test_oom_new_zeros(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_new_zeros(case, estimate):
    estimate(case)
