import pytest

pytestmark = pytest.mark.operator("masked_fill")


def test_oom_masked_fill(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_masked_fill(case, estimate):
    estimate(case)
