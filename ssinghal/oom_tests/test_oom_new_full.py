import pytest

pytestmark = pytest.mark.operator("new_full")


def test_oom_new_full(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_new_full(case, estimate):
    estimate(case)
