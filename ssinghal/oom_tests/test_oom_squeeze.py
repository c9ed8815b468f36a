import pytest

pytestmark = pytest.mark.operator("squeeze")


def test_oom_squeeze(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_squeeze(case, estimate):
    estimate(case)
