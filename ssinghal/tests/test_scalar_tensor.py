import pytest

pytestmark = pytest.mark.operator("scalar_tensor")


def test_scalar_tensor(case, compare):
    compare(case)
