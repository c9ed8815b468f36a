import pytest

pytestmark = pytest.mark.operator("replication_pad2d")


def test_replication_pad2d(case, compare):
    compare(case)
