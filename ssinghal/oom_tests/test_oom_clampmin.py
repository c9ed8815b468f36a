import pytest

pytestmark = pytest.mark.operator("clampmin")


def test_oom_clampmin(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_clampmin(case, estimate):
    estimate(case)
