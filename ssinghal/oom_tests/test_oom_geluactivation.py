import pytest

pytestmark = pytest.mark.operator("geluactivation")


def test_oom_geluactivation(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_geluactivation(case, estimate):
    estimate(case)
