import pytest

pytestmark = pytest.mark.operator("unsafeview")


def test_unsafeview(case, compare):
    compare(case)
