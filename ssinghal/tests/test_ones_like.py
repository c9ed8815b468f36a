import pytest

pytestmark = pytest.mark.operator("ones_like")


def test_ones_like(case, compare):
    compare(case)
