import pytest

pytestmark = pytest.mark.operator("elu")


def test_elu(case, compare):
    compare(case)
