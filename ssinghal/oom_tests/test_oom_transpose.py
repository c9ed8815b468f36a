import pytest

pytestmark = pytest.mark.operator("transpose")


def test_oom_transpose(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_transpose(case, estimate):
    estimate(case)
