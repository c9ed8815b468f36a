import pytest

pytestmark = pytest.mark.operator("native_layer_norm")


def test_native_layer_norm(case, compare):
    compare(case)
