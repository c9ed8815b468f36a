import pytest

pytestmark = pytest.mark.operator("view")


def test_oom_view(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_view(case, estimate):
    estimate(case)
