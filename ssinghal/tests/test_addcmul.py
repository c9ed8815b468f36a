import pytest

pytestmark = pytest.mark.operator("addcmul")


def test_addcmul(case, compare):
    compare(case)
