import pytest

pytestmark = pytest.mark.operator("embedding")


def test_oom_embedding(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_embedding(case, estimate):
    estimate(case)
