import pytest

pytestmark = pytest.mark.operator("dropout")


def test_oom_dropout(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_dropout(case, estimate):
    estimate(case)
