import pytest

pytestmark = pytest.mark.operator("transpose")


def test_transpose(case, compare):
    compare(case)
