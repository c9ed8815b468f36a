import pytest

pytestmark = pytest.mark.operator("ceil")


def test_ceil(case, compare):
    compare(case)
