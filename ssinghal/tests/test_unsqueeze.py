import pytest

pytestmark = pytest.mark.operator("unsqueeze")


def test_unsqueeze(case, compare):
    compare(case)
