import pytest

pytestmark = pytest.mark.operator("max_pool2d")


def test_max_pool2d(case, compare):
    compare(case)
