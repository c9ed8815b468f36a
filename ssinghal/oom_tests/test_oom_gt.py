import pytest

pytestmark = pytest.mark.operator("gt")


def test_oom_gt(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_gt(case, estimate):
    estimate(case)
