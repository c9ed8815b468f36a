import pytest

pytestmark = pytest.mark.operator("argmax")


def test_argmax(case, compare):
    compare(case)
