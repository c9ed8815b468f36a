import pytest

pytestmark = pytest.mark.operator("addcmul")


def test_oom_addcmul(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_addcmul(case, estimate):
    estimate(case)
