import pytest

pytestmark = pytest.mark.operator("softmax")


def test_oom_softmax(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_softmax(case, estimate):
    estimate(case)
