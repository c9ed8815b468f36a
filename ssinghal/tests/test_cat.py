import pytest

pytestmark = pytest.mark.operator("cat")


def test_cat(case, compare):
    compare(case)
