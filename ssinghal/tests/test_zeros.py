import pytest

pytestmark = pytest.mark.operator("zeros")


def test_zeros(case, compare):
    compare(case)
