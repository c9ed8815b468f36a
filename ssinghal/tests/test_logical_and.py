import pytest

pytestmark = pytest.mark.operator("logical_and")


def test_logical_and(case, compare):
    compare(case)
