import pytest

pytestmark = pytest.mark.operator("mm")


def test_mm(case, compare):
    compare(case)
