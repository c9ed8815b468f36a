import pytest

pytestmark = pytest.mark.operator("repeat_interleave")


def test_repeat_interleave(case, compare):
    compare(case)
