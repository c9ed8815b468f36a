import pytest

pytestmark = pytest.mark.operator("unsafeview")


def test_oom_unsafeview(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_unsafeview(case, estimate):
    estimate(case)
