import pytest

pytestmark = pytest.mark.operator("chunk")


def test_oom_chunk(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_chunk(case, estimate):
    estimate(case)
