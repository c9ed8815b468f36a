import pytest

pytestmark = pytest.mark.operator("softplus")


def test_softplus(case, compare):
    compare(case)
