import pytest

pytestmark = pytest.mark.operator("leakyrelu")


def test_leakyrelu(case, compare):
    compare(case)
