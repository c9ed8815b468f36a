import pytest

pytestmark = pytest.mark.operator("prod")


def test_oom_prod(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_prod(case, estimate):
    estimate(case)
