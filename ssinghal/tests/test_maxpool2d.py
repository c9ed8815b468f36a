import pytest

pytestmark = pytest.mark.operator("maxpool2d")


def test_maxpool2d(case, compare):
    compare(case)
