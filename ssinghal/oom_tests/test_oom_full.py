import pytest

pytestmark = pytest.mark.operator("full")


def test_oom_full(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_full(case, estimate):
    estimate(case)
