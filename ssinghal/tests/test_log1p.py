import pytest

pytestmark = pytest.mark.operator("log1p")


def test_log1p(case, compare):
    compare(case)
