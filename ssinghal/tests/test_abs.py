import pytest

pytestmark = pytest.mark.operator("abs")


def test_abs(case, compare):
    compare(case)
