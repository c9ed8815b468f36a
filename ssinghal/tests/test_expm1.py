import pytest

pytestmark = pytest.mark.operator("expm1")


def test_expm1(case, compare):
    compare(case)
