import pytest

pytestmark = pytest.mark.operator("as_strided")


def test_oom_as_strided(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_as_strided(case, estimate):
    estimate(case)
