import pytest

pytestmark = pytest.mark.operator("prod")


def test_prod(case, compare):
    compare(case)
