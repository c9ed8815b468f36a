import pytest

pytestmark = pytest.mark.operator("maximum")


def test_maximum(case, compare):
    compare(case)
