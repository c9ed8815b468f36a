import pytest

pytestmark = pytest.mark.operator("grid_sampler")


def test_grid_sampler(case, compare):
    compare(case)
