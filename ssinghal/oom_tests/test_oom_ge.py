import pytest

pytestmark = pytest.mark.operator("ge")


def test_oom_ge(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_ge(case, estimate):
    estimate(case)
