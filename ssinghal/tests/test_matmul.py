import pytest

pytestmark = pytest.mark.operator("matmul")


def test_matmul(case, compare):
    compare(case)
