import pytest

pytestmark = pytest.mark.operator("movedim")


def test_movedim(case, compare):
    compare(case)
