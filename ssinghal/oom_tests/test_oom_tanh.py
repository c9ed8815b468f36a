import pytest

pytestmark = pytest.mark.operator("tanh")


def test_oom_tanh(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_tanh(case, estimate):
    estimate(case)
