import pytest

pytestmark = pytest.mark.operator("square")


def test_square(case, compare):
    compare(case)
