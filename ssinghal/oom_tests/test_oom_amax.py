import pytest

pytestmark = pytest.mark.operator("amax")


def test_oom_amax(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_amax(case, estimate):
    estimate(case)
