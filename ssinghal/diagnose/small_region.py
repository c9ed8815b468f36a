"""Explains an L1_SMALL region that is full or too small: what is in it at least, and which size has room."""

from __future__ import annotations

from collections.abc import Iterator

from ssinghal.core.tensors import ceil_div, round_up
from ssinghal.core.verdict import Verdict

# Bytes to whose multiples the allocator rounds in an L1, on a Wormhole and on a Blackhole: measured on virtual boards, 0.66.0
# and 0.81.1.
GRANULES = (32, 64)
_IN_DRAM = (
    "from 0.66.0 on, a convolution with config_tensors_in_dram=True in its Conv2dConfig, or a pool with"
    " config_tensor_in_dram=True, keeps its tables in DRAM instead"
)


def sufficient_size(verdict: Verdict) -> int | None:
    """Returns an ``l1_small_size`` with room for this buffer after all that is in the region now; None for an unknown region.

    The block next to the free end grows with the region; where its size is unknown, all of the region may be in use.
    """
    need, region = verdict.bytes_per_bank, verdict.bank_bytes
    if need is None or region is None:
        return None
    free = verdict.largest_free_bytes
    if free is None and verdict.free_bytes is not None and verdict.free_bytes < need:
        free = verdict.free_bytes
    return round_up(region - min(free or 0, need, region) + need, GRANULES[0])


def least_taken(need: int, region: int) -> tuple[int, int]:
    """Returns the bytes of ``region`` that are in use at least where ``need`` found no room: exact, and as the allocator
    rounds on either architecture.

    >>> least_taken(19_808, 65_536), least_taken(16, 8_000)
    ((45729, 45760), (7985, 8000))
    """
    rounded = (region - (round_up(need, granule) - granule) for granule in GRANULES)
    return region - need + 1, min(*rounded, region)


def region_lines(verdict: Verdict) -> Iterator[str]:
    """Yields what the figures imply for the region of a device that was opened with ``l1_small_size``."""
    need, region = verdict.bytes_per_bank, verdict.bank_bytes
    if need is None:
        per_bank = ceil_div(verdict.total_bytes, verdict.banks) if verdict.total_bytes is not None and verdict.banks else None
        room = f": this buffer takes at least {per_bank:,} B of it" if per_bank else ""
        yield f"open the device with a larger l1_small_size{room}"
        yield _IN_DRAM
        return
    if region is None:
        yield f"the size of the region is not in the text: it has no free block of {need:,} B, a larger l1_small_size may"
        yield _IN_DRAM
        return
    if region == 0:
        yield "the device was opened without an L1_SMALL region, as by default: l1_small_size is 0"
    elif need > region:
        yield f"the region is {need - region:,} B smaller than this buffer alone"
    elif verdict.allocated_bytes is None:
        exact, rounded = least_taken(need, region)
        steps = f" ({rounded:,} B as the allocator rounds)" if rounded != exact else ""
        yield (
            f"it fits into an empty region: programs before it have taken at least {exact:,} B{steps} of the"
            f" {region:,} B, unless what is free is in several holes"
        )
    elif verdict.largest_free_bytes is not None and verdict.free_bytes is not None and verdict.free_bytes >= need:
        yield f"fragmented: {verdict.free_bytes:,} B are free, but the largest block has {verdict.largest_free_bytes:,} B"
    else:
        yield f"programs before it have taken {verdict.allocated_bytes:,} B of the {region:,} B"
    yield f"l1_small_size {sufficient_size(verdict):,} has room for this buffer; the programs that follow add their own"
    yield _IN_DRAM
