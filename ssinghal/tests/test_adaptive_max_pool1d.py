import pytest

pytestmark = pytest.mark.operator("adaptive_max_pool1d")


def test_adaptive_max_pool1d(case, compare):
    compare(case)
