"""Sizes from the environment, so that a later run takes more. A tile of bfloat16 has 2,048 B; 64 of them are one per bank."""

import os

import pytest
import ttnn

TILES = int(os.environ.get("TILES", "64"))


@pytest.fixture(scope="module")
def weights(device):
    """Whichever test is first, on whichever worker: 10 in each bank."""
    return ttnn.empty([32 * 640, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@pytest.mark.parametrize("n", range(4))
def test_weights(device, weights, n):
    ttnn.add(weights, weights)


@pytest.mark.parametrize("n", range(4))
def test_pool(device, n):
    """The program of the first keeps a table, which the others use."""
    x = ttnn.empty([1, 1, 4096, 32], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    ttnn.max_pool2d(x, 1, 64, 64, 32, [2, 2], [2, 2], [0, 0], [1, 1])


def test_grows(device):
    ttnn.empty([32 * TILES, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@pytest.mark.skipif("NEW" not in os.environ, reason="later")
def test_new(device):
    ttnn.empty([32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


@pytest.mark.skipif("KILL" not in os.environ, reason="no crash")
def test_killed(device):
    ttnn.empty([32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    os.kill(os.getpid(), 9)


def test_last(device):
    ttnn.empty([32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
