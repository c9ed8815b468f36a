import pytest

pytestmark = pytest.mark.operator("erf")


def test_oom_erf(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_erf(case, estimate):
    estimate(case)
