import pytest

pytestmark = pytest.mark.operator("floor_divide")


def test_floor_divide(case, compare):
    compare(case)
