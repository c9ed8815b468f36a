import pytest

pytestmark = pytest.mark.operator("where")


def test_where(case, compare):
    compare(case)
