import pytest

pytestmark = pytest.mark.operator("unsqueeze")


def test_oom_unsqueeze(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_unsqueeze(case, estimate):
    estimate(case)
