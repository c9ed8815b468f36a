import pytest

pytestmark = pytest.mark.operator("stack")


def test_stack(case, compare):
    compare(case)
