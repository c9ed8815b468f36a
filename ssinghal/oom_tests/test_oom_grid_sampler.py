import pytest

pytestmark = pytest.mark.operator("grid_sampler")


def test_oom_grid_sampler(case, expect_oom):
    expect_oom(case)


def test_memory_estimation_grid_sampler(case, estimate):
    estimate(case)
