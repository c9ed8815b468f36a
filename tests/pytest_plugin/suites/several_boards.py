"""Tests that run on two boards. An N150 has 64 banks of L1, a P150 110 of them."""

import os

import pytest
import torch
import ttnn

BOTH = pytest.mark.fits(board=["n150", "p150"])


def empty(device, tiles):
    return ttnn.empty([32 * tiles, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@BOTH
@pytest.mark.parametrize("tiles", [64, 64 * 700])
def test_tiles(device, tiles):
    """700 tiles of 2,048 B in each bank of an N150 are 1,433,600 B, more than its L1; 408 in each of a P150."""
    empty(device, tiles)


@BOTH
def test_values(device):
    a = ttnn.from_torch(torch.ones(32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    assert torch.equal(ttnn.to_torch(ttnn.add(a, a)), torch.full((32, 32), 2.0))


@BOTH
@pytest.mark.limit_device_memory(l1_per_core="2 KiB")
def test_budget(device):
    """100 tiles are two per bank of an N150, and one of a P150."""
    empty(device, 100)


@BOTH
@pytest.mark.expect_oom(resource="l1_buffer")
def test_expected(device):
    empty(device, 200_000)


@BOTH
@pytest.mark.xfail(strict=True, reason="too large for an N150")
@pytest.mark.parametrize("tiles", [200_000, 64])
def test_known(device, tiles):
    """The first fits on neither board, the second on both: the mark is stale for it."""
    empty(device, tiles)


@BOTH
@pytest.mark.skip(reason="not now")
def test_skipped(device):
    raise AssertionError


@pytest.mark.fits(board="n150")
def test_crashes(device):
    os.kill(os.getpid(), 11)


@pytest.mark.fits(board="n150")
def test_after_them(device):
    empty(device, 64)


def test_without_the_mark():
    assert True
