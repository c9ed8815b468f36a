import pytest

pytestmark = pytest.mark.operator("constant_pad_nd")


def test_oom_constant_pad_nd(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_constant_pad_nd(case, estimate):
    estimate(case)
