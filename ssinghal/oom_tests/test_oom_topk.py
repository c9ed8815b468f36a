import pytest

pytestmark = pytest.mark.operator("topk")


def test_oom_topk(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_topk(case, estimate):
    estimate(case)
