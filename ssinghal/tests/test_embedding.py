import pytest

pytestmark = pytest.mark.operator("embedding")


def test_embedding(case, compare):
    compare(case)
