import pytest

pytestmark = pytest.mark.operator("logical_xor")


def test_logical_xor(case, compare):
    compare(case)
