import pytest

pytestmark = pytest.mark.operator("t")


def test_t(case, compare):
    compare(case)
