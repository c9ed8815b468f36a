import pytest

pytestmark = pytest.mark.operator("round")


def test_round(case, compare):
    compare(case)
