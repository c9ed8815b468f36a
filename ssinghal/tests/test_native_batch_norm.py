import pytest

pytestmark = pytest.mark.operator("native_batch_norm")


def test_native_batch_norm(case, compare):
    compare(case)
