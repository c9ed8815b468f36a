import pytest

pytestmark = pytest.mark.operator("tilize")


def test_tilize(case, compare):
    compare(case)
