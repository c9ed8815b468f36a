import pytest

pytestmark = pytest.mark.operator("adaptive_avg_pool1d")


def test_adaptive_avg_pool1d(case, compare):
    compare(case)
