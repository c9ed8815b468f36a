import pytest

pytestmark = pytest.mark.operator("erf")


def test_erf(case, compare):
    compare(case)
