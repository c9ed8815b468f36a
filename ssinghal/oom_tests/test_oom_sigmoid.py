import pytest

pytestmark = pytest.mark.operator("sigmoid")


def test_oom_sigmoid(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sigmoid(case, estimate):
    estimate(case)
