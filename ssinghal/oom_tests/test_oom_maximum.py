import pytest

pytestmark = pytest.mark.operator("maximum")


def test_oom_maximum(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_maximum(case, estimate):
    estimate(case)
