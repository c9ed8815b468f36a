import pytest

pytestmark = pytest.mark.operator("silu_")


def test_silu_(case, compare):
    compare(case)
