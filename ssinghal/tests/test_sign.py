import pytest

pytestmark = pytest.mark.operator("sign")


def test_sign(case, compare):
    compare(case)
