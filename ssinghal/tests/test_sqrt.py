import pytest

pytestmark = pytest.mark.operator("sqrt")


def test_sqrt(case, compare):
    compare(case)
