import pytest

pytestmark = pytest.mark.operator("ones")


def test_oom_ones(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_ones(case, estimate):
    estimate(case)
