import pytest

pytestmark = pytest.mark.operator("stack")


def test_oom_stack(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_stack(case, estimate):
    estimate(case)
