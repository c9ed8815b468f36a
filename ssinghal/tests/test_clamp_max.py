import pytest

pytestmark = pytest.mark.operator("clamp_max")


def test_clamp_max(case, compare):
    compare(case)
