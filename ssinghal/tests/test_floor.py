import pytest

pytestmark = pytest.mark.operator("floor")


def test_floor(case, compare):
    compare(case)
