import pytest

pytestmark = pytest.mark.operator("identity")


def test_identity(case, compare):
    compare(case)
