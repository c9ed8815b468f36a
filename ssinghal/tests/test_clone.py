import pytest

pytestmark = pytest.mark.operator("clone")


def test_clone(case, compare):
    compare(case)
