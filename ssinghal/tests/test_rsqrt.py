import pytest

pytestmark = pytest.mark.operator("rsqrt")


def test_rsqrt(case, compare):
    compare(case)
