import pytest

pytestmark = pytest.mark.operator("adaptive_avg_pool2d")


def test_adaptive_avg_pool2d(case, compare):
    compare(case)
