import pytest

pytestmark = pytest.mark.operator("zeros_like")


def test_zeros_like(case, compare):
    compare(case)
