import pytest

pytestmark = pytest.mark.operator("relu6")


def test_oom_relu6(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_relu6(case, estimate):
    estimate(case)
