import pytest

pytestmark = pytest.mark.operator("relu6")


def test_relu6(case, compare):
    compare(case)
