import pytest

pytestmark = pytest.mark.operator("leaky_relu")


def test_oom_leaky_relu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_leaky_relu(case, estimate):
    estimate(case)
