import pytest

pytestmark = pytest.mark.operator("replication_pad2d")


def test_oom_replication_pad2d(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_replication_pad2d(case, estimate):
    estimate(case)
