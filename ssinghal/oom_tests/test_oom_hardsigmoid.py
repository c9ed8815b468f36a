import pytest

pytestmark = pytest.mark.operator("hardsigmoid")


def test_oom_hardsigmoid(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_hardsigmoid(case, estimate):
    estimate(case)
