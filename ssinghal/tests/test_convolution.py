import pytest

pytestmark = pytest.mark.operator("convolution")


def test_convolution(case, compare):
    compare(case)
