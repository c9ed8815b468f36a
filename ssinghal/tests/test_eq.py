import pytest

pytestmark = pytest.mark.operator("eq")


def test_eq(case, compare):
    compare(case)
