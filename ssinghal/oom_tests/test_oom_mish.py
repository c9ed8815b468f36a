import pytest

pytestmark = pytest.mark.operator("mish")


def test_oom_mish(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_mish(case, estimate):
    estimate(case)
