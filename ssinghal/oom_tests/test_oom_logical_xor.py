import pytest

pytestmark = pytest.mark.operator("logical_xor")


def test_oom_logical_xor(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_logical_xor(case, estimate):
    estimate(case)
