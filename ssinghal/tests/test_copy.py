import pytest

pytestmark = pytest.mark.operator("copy")


def test_copy(case, compare):
    compare(case)
