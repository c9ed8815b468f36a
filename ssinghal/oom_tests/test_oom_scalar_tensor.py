import pytest

pytestmark = pytest.mark.operator("scalar_tensor")


def test_oom_scalar_tensor(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_scalar_tensor(case, estimate):
    estimate(case)
