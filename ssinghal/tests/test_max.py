import pytest

pytestmark = pytest.mark.operator("max")


def test_max(case, compare):
    compare(case)
