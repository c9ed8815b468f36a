import pytest

pytestmark = pytest.mark.operator("rsub")


def test_oom_rsub(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_rsub(case, estimate):
    estimate(case)
