import pytest

pytestmark = pytest.mark.operator("concat")


def test_concat(case, compare):
    compare(case)
