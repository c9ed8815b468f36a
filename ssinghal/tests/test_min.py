import pytest

pytestmark = pytest.mark.operator("min")


def test_min(case, compare):
    compare(case)
