import pytest

pytestmark = pytest.mark.operator("cos")


def test_oom_cos(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_cos(case, estimate):
    estimate(case)
