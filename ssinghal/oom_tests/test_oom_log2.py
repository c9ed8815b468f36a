import pytest

pytestmark = pytest.mark.operator("log2")


def test_oom_log2(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_log2(case, estimate):
    estimate(case)
