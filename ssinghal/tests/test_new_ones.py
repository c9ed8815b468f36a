import pytest

pytestmark = pytest.mark.operator("new_ones")


def test_new_ones(case, compare):
    compare(case)
