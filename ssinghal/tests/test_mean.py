import pytest

pytestmark = pytest.mark.operator("mean")


def test_mean(case, compare):
    compare(case)
