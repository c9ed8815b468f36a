import pytest

pytestmark = pytest.mark.operator("untilize")


def test_untilize(case, compare):
    compare(case)
