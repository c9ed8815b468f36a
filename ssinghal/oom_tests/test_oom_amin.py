import pytest

pytestmark = pytest.mark.operator("amin")


def test_oom_amin(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_amin(case, estimate):
    estimate(case)
