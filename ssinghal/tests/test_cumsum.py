import pytest

pytestmark = pytest.mark.operator("cumsum")


def test_cumsum(case, compare):
    compare(case)
