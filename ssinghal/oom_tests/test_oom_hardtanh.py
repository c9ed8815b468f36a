import pytest

pytestmark = pytest.mark.operator("hardtanh")


def test_oom_hardtanh(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_hardtanh(case, estimate):
    estimate(case)
