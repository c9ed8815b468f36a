import pytest

pytestmark = pytest.mark.operator("softplus")


def test_oom_softplus(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_softplus(case, estimate):
    estimate(case)
