import pytest

pytestmark = pytest.mark.operator("argmax")


def test_oom_argmax(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_argmax(case, estimate):
    estimate(case)
