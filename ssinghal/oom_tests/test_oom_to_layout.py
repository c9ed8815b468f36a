import pytest

pytestmark = pytest.mark.operator("to_layout")


def test_oom_to_layout(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_to_layout(case, estimate):
    estimate(case)
