import pytest

pytestmark = pytest.mark.operator("native_group_norm")


def test_native_group_norm(case, compare):
    compare(case)
