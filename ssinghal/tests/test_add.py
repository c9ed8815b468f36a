import pytest

pytestmark = pytest.mark.operator("add")


def test_add(case, compare):
    compare(case)
