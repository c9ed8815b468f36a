import pytest

pytestmark = pytest.mark.operator("flatten")


def test_oom_flatten(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_flatten(case, estimate):
    estimate(case)
