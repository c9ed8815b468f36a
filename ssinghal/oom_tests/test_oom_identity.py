import pytest

pytestmark = pytest.mark.operator("identity")


def test_oom_identity(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_identity(case, estimate):
    estimate(case)
