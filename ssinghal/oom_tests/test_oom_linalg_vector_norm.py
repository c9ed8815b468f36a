import pytest

pytestmark = pytest.mark.operator("linalg_vector_norm")


def test_oom_linalg_vector_norm(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_linalg_vector_norm(case, estimate):
    estimate(case)
