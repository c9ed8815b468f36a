import pytest

pytestmark = pytest.mark.operator("replication_pad3d")


def test_replication_pad3d(case, compare):
    compare(case)
