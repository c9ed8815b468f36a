import pytest

pytestmark = pytest.mark.operator("slice")


def test_slice(case, compare):
    compare(case)
