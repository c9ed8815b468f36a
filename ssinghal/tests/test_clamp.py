import pytest

pytestmark = pytest.mark.operator("clamp")


def test_clamp(case, compare):
    compare(case)
