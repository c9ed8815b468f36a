import pytest

pytestmark = pytest.mark.operator("hardsigmoid")


def test_hardsigmoid(case, compare):
    compare(case)
