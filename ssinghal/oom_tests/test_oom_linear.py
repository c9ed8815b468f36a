import pytest

pytestmark = pytest.mark.operator("linear")


def test_oom_linear(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_linear(case, estimate):
    estimate(case)
