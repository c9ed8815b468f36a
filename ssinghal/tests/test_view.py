import pytest

pytestmark = pytest.mark.operator("view")


def test_view(case, compare):
    compare(case)
