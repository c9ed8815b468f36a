import pytest

pytestmark = pytest.mark.operator("exp")


def test_exp(case, compare):
    compare(case)
