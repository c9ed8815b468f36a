import pytest

pytestmark = pytest.mark.operator("bmm")


def test_bmm(case, compare):
    compare(case)
