import pytest

pytestmark = pytest.mark.operator("new_full")


def test_new_full(case, compare):
    compare(case)
