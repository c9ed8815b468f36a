import pytest

pytestmark = pytest.mark.operator("cat")


def test_oom_cat(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_cat(case, estimate):
    estimate(case)
