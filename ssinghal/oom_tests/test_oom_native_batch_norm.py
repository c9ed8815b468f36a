import pytest

pytestmark = pytest.mark.operator("native_batch_norm")


def test_oom_native_batch_norm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_native_batch_norm(case, estimate):
    estimate(case)
