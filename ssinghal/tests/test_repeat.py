import pytest

pytestmark = pytest.mark.operator("repeat")


def test_repeat(case, compare):
    compare(case)
