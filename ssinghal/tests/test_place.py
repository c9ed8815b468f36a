import pytest

pytestmark = pytest.mark.operator("place")


def test_place(case, compare):
    compare(case)
