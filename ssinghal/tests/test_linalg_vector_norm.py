import pytest

pytestmark = pytest.mark.operator("linalg_vector_norm")


def test_linalg_vector_norm(case, compare):
    compare(case)
