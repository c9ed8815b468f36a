import pytest

pytestmark = pytest.mark.operator("arange")


def test_oom_arange(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_arange(case, estimate):
    estimate(case)
