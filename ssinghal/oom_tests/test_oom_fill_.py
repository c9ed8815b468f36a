import pytest

pytestmark = pytest.mark.operator("fill_")


def test_oom_fill_(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_fill_(case, estimate):
    estimate(case)
