import pytest

pytestmark = pytest.mark.operator("mm")


def test_oom_mm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_mm(case, estimate):
    estimate(case)
