import pytest

pytestmark = pytest.mark.operator("t")


def test_oom_t(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_t(case, estimate):
    estimate(case)
