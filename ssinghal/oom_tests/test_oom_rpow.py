import pytest

pytestmark = pytest.mark.operator("rpow")


def test_oom_rpow(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_rpow(case, estimate):
    estimate(case)
