import pytest

pytestmark = pytest.mark.operator("full")


def test_full(case, compare):
    compare(case)
