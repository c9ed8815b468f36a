import pytest

pytestmark = pytest.mark.operator("sin")


def test_oom_sin(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sin(case, estimate):
    estimate(case)
