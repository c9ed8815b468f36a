import pytest

pytestmark = pytest.mark.operator("squeeze")


def test_squeeze(case, compare):
    compare(case)
