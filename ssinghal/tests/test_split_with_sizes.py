import pytest

pytestmark = pytest.mark.operator("split_with_sizes")


def test_split_with_sizes(case, compare):
    compare(case)
