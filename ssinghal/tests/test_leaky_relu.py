import pytest

pytestmark = pytest.mark.operator("leaky_relu")


def test_leaky_relu(case, compare):
    compare(case)
