import pytest

pytestmark = pytest.mark.operator("roll")


def test_roll(case, compare):
    compare(case)
