import pytest

pytestmark = pytest.mark.operator("hardswish")


def test_hardswish(case, compare):
    compare(case)
