import pytest

pytestmark = pytest.mark.operator("scaled_dot_product_attention")


def test_scaled_dot_product_attention(case, compare):
    compare(case)
