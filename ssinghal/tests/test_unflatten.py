import pytest

pytestmark = pytest.mark.operator("unflatten")


def test_unflatten(case, compare):
    compare(case)
