import pytest

pytestmark = pytest.mark.operator("clampmin")


def test_clampmin(case, compare):
    compare(case)
