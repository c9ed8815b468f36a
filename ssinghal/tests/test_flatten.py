import pytest

pytestmark = pytest.mark.operator("flatten")


def test_flatten(case, compare):
    compare(case)
