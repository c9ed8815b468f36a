import pytest

pytestmark = pytest.mark.operator("conv_transpose2d")


def test_conv_transpose2d(case, compare):
    compare(case)
