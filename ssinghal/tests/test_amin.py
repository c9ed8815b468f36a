import pytest

pytestmark = pytest.mark.operator("amin")


def test_amin(case, compare):
    compare(case)
