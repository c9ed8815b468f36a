import pytest

pytestmark = pytest.mark.operator("rms_norm")


def test_oom_rms_norm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_rms_norm(case, estimate):
    estimate(case)
