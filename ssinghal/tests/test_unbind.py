import pytest

pytestmark = pytest.mark.operator("unbind")


def test_unbind(case, compare):
    compare(case)
