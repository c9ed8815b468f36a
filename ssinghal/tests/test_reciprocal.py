import pytest

pytestmark = pytest.mark.operator("reciprocal")


def test_reciprocal(case, compare):
    compare(case)
