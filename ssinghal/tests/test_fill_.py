import pytest

pytestmark = pytest.mark.operator("fill_")


def test_fill_(case, compare):
    compare(case)
