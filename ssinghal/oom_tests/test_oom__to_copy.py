import pytest

pytestmark = pytest.mark.operator("_to_copy")


def test_oom__to_copy(case, expect_oom):
    expect_oom(case)


def test_memory_estimation__to_copy(case, estimate):
    estimate(case)
