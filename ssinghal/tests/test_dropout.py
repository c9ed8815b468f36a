import pytest

pytestmark = pytest.mark.operator("dropout")


def test_dropout(case, compare):
    compare(case)
