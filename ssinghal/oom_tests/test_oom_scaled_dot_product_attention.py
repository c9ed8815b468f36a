import pytest

pytestmark = pytest.mark.operator("scaled_dot_product_attention")


def test_oom_scaled_dot_product_attention(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_scaled_dot_product_attention(case, estimate):
    estimate(case)
