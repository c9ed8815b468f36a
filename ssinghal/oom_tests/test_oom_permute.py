import pytest

pytestmark = pytest.mark.operator("permute")


def test_oom_permute(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_permute(case, estimate):
    estimate(case)
