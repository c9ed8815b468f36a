import pytest

pytestmark = pytest.mark.operator("avg_pool2d")


def test_avg_pool2d(case, compare):
    compare(case)
