import pytest

pytestmark = pytest.mark.operator("elu")


def test_oom_elu(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_elu(case, estimate):
    estimate(case)
