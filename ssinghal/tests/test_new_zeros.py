import pytest

pytestmark = pytest.mark.operator("new_zeros")


def test_new_zeros(case, compare):
    compare(case)
