import pytest

pytestmark = pytest.mark.operator("adaptive_max_pool2d")


def test_adaptive_max_pool2d(case, compare):
    compare(case)
