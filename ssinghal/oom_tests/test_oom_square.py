import pytest

pytestmark = pytest.mark.operator("square")


def test_oom_square(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_square(case, estimate):
    estimate(case)
