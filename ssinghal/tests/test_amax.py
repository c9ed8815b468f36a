import pytest

pytestmark = pytest.mark.operator("amax")


def test_amax(case, compare):
    compare(case)
