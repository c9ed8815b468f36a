import pytest

pytestmark = pytest.mark.operator("log")


def test_oom_log(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_log(case, estimate):
    estimate(case)
