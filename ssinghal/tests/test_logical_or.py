import pytest

pytestmark = pytest.mark.operator("logical_or")


def test_logical_or(case, compare):
    compare(case)
