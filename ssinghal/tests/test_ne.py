import pytest

pytestmark = pytest.mark.operator("ne")


def test_ne(case, compare):
    compare(case)
