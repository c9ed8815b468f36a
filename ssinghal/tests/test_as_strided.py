import pytest

pytestmark = pytest.mark.operator("as_strided")


def test_as_strided(case, compare):
    compare(case)
