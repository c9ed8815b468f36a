import pytest

pytestmark = pytest.mark.operator("log")


def test_log(case, compare):
    compare(case)
