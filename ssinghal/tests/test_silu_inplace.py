import pytest

pytestmark = pytest.mark.operator("silu_inplace")


def test_silu_inplace(case, compare):
    compare(case)
