import pytest

pytestmark = pytest.mark.operator("neg")


def test_oom_neg(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_neg(case, estimate):
    estimate(case)
