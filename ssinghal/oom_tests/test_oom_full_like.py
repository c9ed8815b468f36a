import pytest

pytestmark = pytest.mark.operator("full_like")


def test_oom_full_like(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_full_like(case, estimate):
    estimate(case)
