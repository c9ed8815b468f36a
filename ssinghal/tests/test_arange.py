import pytest

pytestmark = pytest.mark.operator("arange")


def test_arange(case, compare):
    compare(case)
