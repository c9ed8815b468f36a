import pytest

pytestmark = pytest.mark.operator("minimum")


def test_minimum(case, compare):
    compare(case)
