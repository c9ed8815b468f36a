import pytest

pytestmark = pytest.mark.operator("geluactivation")


def test_geluactivation(case, compare):
    compare(case)
