import pytest

pytestmark = pytest.mark.operator("floor")


def test_oom_floor(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_floor(case, estimate):
    estimate(case)
