import pytest

pytestmark = pytest.mark.operator("mul")


def test_mul(case, compare):
    compare(case)
