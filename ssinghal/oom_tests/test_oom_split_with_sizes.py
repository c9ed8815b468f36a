import pytest

pytestmark = pytest.mark.operator("split_with_sizes")


def test_oom_split_with_sizes(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_split_with_sizes(case, estimate):
    estimate(case)
