import pytest

pytestmark = pytest.mark.operator("tanh")


def test_tanh(case, compare):
    compare(case)
