import pytest

pytestmark = pytest.mark.operator("tilize")


def test_oom_tilize(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_tilize(case, estimate):
    estimate(case)
