import pytest

pytestmark = pytest.mark.operator("ones_like")


def test_oom_ones_like(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_ones_like(case, estimate):
    estimate(case)
