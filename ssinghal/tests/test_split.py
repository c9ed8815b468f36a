import pytest

pytestmark = pytest.mark.operator("split")


def test_split(case, compare):
    compare(case)
