import pytest

pytestmark = pytest.mark.operator("sign")


def test_oom_sign(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_sign(case, estimate):
    estimate(case)
