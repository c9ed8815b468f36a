import pytest

pytestmark = pytest.mark.operator("pow")


def test_oom_pow(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_pow(case, estimate):
    estimate(case)
