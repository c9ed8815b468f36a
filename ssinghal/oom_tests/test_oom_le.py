import pytest

pytestmark = pytest.mark.operator("le")


def test_oom_le(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_le(case, estimate):
    estimate(case)
