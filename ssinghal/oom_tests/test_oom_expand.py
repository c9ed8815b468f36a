import pytest

pytestmark = pytest.mark.operator("expand")


def test_oom_expand(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_expand(case, estimate):
    estimate(case)
