import pytest

pytestmark = pytest.mark.operator("expand")


def test_expand(case, compare):
    compare(case)
