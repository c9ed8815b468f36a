import pytest

pytestmark = pytest.mark.operator("log2")


def test_log2(case, compare):
    compare(case)
