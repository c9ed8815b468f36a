import pytest

pytestmark = pytest.mark.operator("clamp_min")


def test_clamp_min(case, compare):
    compare(case)
