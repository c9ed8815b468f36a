import pytest

pytestmark = pytest.mark.operator("gather")


def test_oom_gather(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_gather(case, estimate):
    estimate(case)
