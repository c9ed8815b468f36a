import pytest

pytestmark = pytest.mark.operator("div")


def test_div(case, compare):
    compare(case)
