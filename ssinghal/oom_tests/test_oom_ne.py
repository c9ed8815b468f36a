import pytest

pytestmark = pytest.mark.operator("ne")


def test_oom_ne(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_ne(case, estimate):
    estimate(case)
