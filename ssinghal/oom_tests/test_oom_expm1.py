import pytest

pytestmark = pytest.mark.operator("expm1")


def test_oom_expm1(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_expm1(case, estimate):
    estimate(case)
