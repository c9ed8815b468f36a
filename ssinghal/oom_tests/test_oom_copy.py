import pytest

pytestmark = pytest.mark.operator("copy")


def test_oom_copy(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_copy(case, estimate):
    estimate(case)
