import pytest

pytestmark = pytest.mark.operator("upsample_nearest3d")


def test_upsample_nearest3d(case, compare):
    compare(case)
