import pytest

pytestmark = pytest.mark.operator("addmm")


def test_oom_addmm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_addmm(case, estimate):
    estimate(case)
