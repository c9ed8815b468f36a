import pytest

pytestmark = pytest.mark.operator("bmm")


def test_oom_bmm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_bmm(case, estimate):
    estimate(case)
