import pytest

pytestmark = pytest.mark.operator("ones")


def test_ones(case, compare):
    compare(case)
