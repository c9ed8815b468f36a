import pytest

pytestmark = pytest.mark.operator("rsub")


def test_rsub(case, compare):
    compare(case)
