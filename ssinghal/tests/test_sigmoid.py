import pytest

pytestmark = pytest.mark.operator("sigmoid")


def test_sigmoid(case, compare):
    compare(case)
