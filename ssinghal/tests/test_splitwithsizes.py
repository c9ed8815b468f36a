import pytest

pytestmark = pytest.mark.operator("splitwithsizes")


def test_splitwithsizes(case, compare):
    compare(case)
