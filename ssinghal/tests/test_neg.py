import pytest

pytestmark = pytest.mark.operator("neg")


def test_neg(case, compare):
    compare(case)
