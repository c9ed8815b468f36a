import pytest

pytestmark = pytest.mark.operator("to_layout")


def test_to_layout(case, compare):
    compare(case)
