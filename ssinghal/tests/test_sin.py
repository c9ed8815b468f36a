import pytest

pytestmark = pytest.mark.operator("sin")


def test_sin(case, compare):
    compare(case)
