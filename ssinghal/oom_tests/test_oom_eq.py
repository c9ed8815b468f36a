import pytest

pytestmark = pytest.mark.operator("eq")


def test_oom_eq(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_eq(case, estimate):
    estimate(case)
