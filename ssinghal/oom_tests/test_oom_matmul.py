import pytest

pytestmark = pytest.mark.operator("matmul")


def test_oom_matmul(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_matmul(case, estimate):
    estimate(case)
