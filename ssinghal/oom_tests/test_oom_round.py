import pytest

pytestmark = pytest.mark.operator("round")


def test_oom_round(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_round(case, estimate):
    estimate(case)
