import pytest

pytestmark = pytest.mark.operator("constant_pad_nd")


def test_constant_pad_nd(case, compare):
    compare(case)
