import pytest

pytestmark = pytest.mark.operator("floor_divide")


def test_oom_floor_divide(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_floor_divide(case, estimate):
    estimate(case)
