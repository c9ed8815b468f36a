import pytest

pytestmark = pytest.mark.operator("zero_")


def test_zero_(case, compare):
    compare(case)
