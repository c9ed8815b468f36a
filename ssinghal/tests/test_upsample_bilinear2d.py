import pytest

pytestmark = pytest.mark.operator("upsample_bilinear2d")


def test_upsample_bilinear2d(case, compare):
    compare(case)
