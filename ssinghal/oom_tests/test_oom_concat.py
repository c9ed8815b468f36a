import pytest

pytestmark = pytest.mark.operator("concat")


def test_oom_concat(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_concat(case, estimate):
    estimate(case)
