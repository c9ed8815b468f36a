import pytest

pytestmark = pytest.mark.operator("mish")


def test_mish(case, compare):
    compare(case)
