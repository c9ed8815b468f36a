import pytest

pytestmark = pytest.mark.operator("linear")


def test_linear(case, compare):
    compare(case)
