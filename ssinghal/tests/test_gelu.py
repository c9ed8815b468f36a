import pytest

pytestmark = pytest.mark.operator("gelu")


def test_gelu(case, compare):
    compare(case)
