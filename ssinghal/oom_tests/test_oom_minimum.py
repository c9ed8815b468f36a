import pytest

pytestmark = pytest.mark.operator("minimum")


def test_oom_minimum(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_minimum(case, estimate):
    estimate(case)
