import pytest

pytestmark = pytest.mark.operator("ge")


def test_ge(case, compare):
    compare(case)
