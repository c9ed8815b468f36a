import pytest

pytestmark = pytest.mark.operator("topk")


def test_topk(case, compare):
    compare(case)
