import pytest

pytestmark = pytest.mark.operator("hardtanh")


def test_hardtanh(case, compare):
    compare(case)
