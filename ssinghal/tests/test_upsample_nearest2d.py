import pytest

pytestmark = pytest.mark.operator("upsample_nearest2d")


def test_upsample_nearest2d(case, compare):
    compare(case)
