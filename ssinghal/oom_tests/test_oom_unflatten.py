import pytest

pytestmark = pytest.mark.operator("unflatten")


def test_oom_unflatten(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_unflatten(case, estimate):
    estimate(case)
