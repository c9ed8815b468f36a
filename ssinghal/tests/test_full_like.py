import pytest

pytestmark = pytest.mark.operator("full_like")


def test_full_like(case, compare):
    compare(case)
