import pytest

pytestmark = pytest.mark.operator("linalgvectornorm")


def test_linalgvectornorm(case, compare):
    compare(case)
