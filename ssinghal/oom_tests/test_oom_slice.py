import pytest

pytestmark = pytest.mark.operator("slice")


def test_oom_slice(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_slice(case, estimate):
    estimate(case)
