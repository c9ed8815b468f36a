import pytest

pytestmark = pytest.mark.operator("select")


def test_select(case, compare):
    compare(case)
