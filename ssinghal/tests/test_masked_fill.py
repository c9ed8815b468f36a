import pytest

pytestmark = pytest.mark.operator("masked_fill")


def test_masked_fill(case, compare):
    compare(case)
