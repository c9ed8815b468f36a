import pytest

pytestmark = pytest.mark.operator("log1p")


def test_oom_log1p(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_log1p(case, estimate):
    estimate(case)
