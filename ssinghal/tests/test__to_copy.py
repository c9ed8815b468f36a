import pytest

pytestmark = pytest.mark.operator("_to_copy")


def test__to_copy(case, compare):
    compare(case)
