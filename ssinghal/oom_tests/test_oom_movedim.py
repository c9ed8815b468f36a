import pytest

pytestmark = pytest.mark.operator("movedim")


def test_oom_movedim(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_movedim(case, estimate):
    estimate(case)
