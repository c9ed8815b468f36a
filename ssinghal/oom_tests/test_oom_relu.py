import pytest

pytestmark = pytest.mark.operator("relu")


def test_oom_relu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_relu(case, estimate):
    estimate(case)
