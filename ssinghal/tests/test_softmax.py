import pytest

pytestmark = pytest.mark.operator("softmax")


def test_softmax(case, compare):
    compare(case)
