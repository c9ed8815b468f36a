import pytest

pytestmark = pytest.mark.operator("unbind")


def test_oom_unbind(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_unbind(case, estimate):
    estimate(case)
