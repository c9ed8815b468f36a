import pytest

pytestmark = pytest.mark.operator("new_ones")


def test_oom_new_ones(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_new_ones(case, estimate):
    estimate(case)
