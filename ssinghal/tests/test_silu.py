import pytest

pytestmark = pytest.mark.operator("silu")


def test_silu(case, compare):
    compare(case)
