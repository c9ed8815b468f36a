import pytest

pytestmark = pytest.mark.operator("place")


def test_oom_place(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_place(case, estimate):
    estimate(case)
