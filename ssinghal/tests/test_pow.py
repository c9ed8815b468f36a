import pytest

pytestmark = pytest.mark.operator("pow")


def test_pow(case, compare):
    compare(case)
