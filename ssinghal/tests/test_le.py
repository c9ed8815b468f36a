import pytest

pytestmark = pytest.mark.operator("le")


def test_le(case, compare):
    compare(case)
