import pytest

pytestmark = pytest.mark.operator("logical_not")


def test_logical_not(case, compare):
    compare(case)
