import pytest

pytestmark = pytest.mark.operator("relu")


def test_relu(case, compare):
    compare(case)
