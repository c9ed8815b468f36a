import pytest

pytestmark = pytest.mark.operator("addmm")


def test_addmm(case, compare):
    compare(case)
