import pytest

pytestmark = pytest.mark.operator("gt")


def test_gt(case, compare):
    compare(case)
