import pytest

pytestmark = pytest.mark.operator("cos")


def test_cos(case, compare):
    compare(case)
