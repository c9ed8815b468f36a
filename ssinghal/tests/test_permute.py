import pytest

pytestmark = pytest.mark.operator("permute")


def test_permute(case, compare):
    compare(case)
