import pytest

pytestmark = pytest.mark.operator("rms_norm")


def test_rms_norm(case, compare):
    compare(case)
