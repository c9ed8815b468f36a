import pytest

pytestmark = pytest.mark.operator("sub")


def test_sub(case, compare):
    compare(case)
