import pytest

pytestmark = pytest.mark.operator("untilize")


def test_oom_untilize(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_untilize(case, estimate):
    estimate(case)
