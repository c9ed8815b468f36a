import pytest

pytestmark = pytest.mark.operator("split")


def test_oom_split(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_split(case, estimate):
    estimate(case)
