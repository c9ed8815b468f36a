import pytest

pytestmark = pytest.mark.operator("splitwithsizes")


def test_oom_splitwithsizes(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_splitwithsizes(case, estimate):
    estimate(case)
