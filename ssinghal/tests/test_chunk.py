import pytest

pytestmark = pytest.mark.operator("chunk")


def test_chunk(case, compare):
    compare(case)
