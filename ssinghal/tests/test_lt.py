import pytest

pytestmark = pytest.mark.operator("lt")


def test_lt(case, compare):
    compare(case)
