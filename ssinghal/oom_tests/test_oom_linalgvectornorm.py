import pytest

pytestmark = pytest.mark.operator("linalgvectornorm")


def test_oom_linalgvectornorm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_linalgvectornorm(case, estimate):
    estimate(case)
