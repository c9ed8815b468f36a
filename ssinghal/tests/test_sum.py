import pytest

pytestmark = pytest.mark.operator("sum")


def test_sum(case, compare):
    compare(case)
