import pytest

pytestmark = pytest.mark.operator("gather")


def test_gather(case, compare):
    compare(case)
