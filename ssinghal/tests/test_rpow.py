import pytest

pytestmark = pytest.mark.operator("rpow")


def test_rpow(case, compare):
    compare(case)
