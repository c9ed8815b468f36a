import pytest

pytestmark = pytest.mark.operator("add")


def test_oom_add(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_add(case, estimate):
    estimate(case)
