import pytest

pytestmark = pytest.mark.operator("clone")


def test_oom_clone(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_clone(case, estimate):
    estimate(case)
