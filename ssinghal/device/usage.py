"""Measures what a call needs of each memory, from TTNN's graph of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ssinghal.core.measured import Usage
from ssinghal.core.tensors import Board, BufferType, ceil_div

_BUFFER_KINDS = {0: BufferType.DRAM, 1: BufferType.L1, 3: BufferType.L1_SMALL}
_WRAP = 2**32  # TTNN's graph keeps a buffer's bytes per bank in 32 bits


def usage_of(trace: Iterable[Mapping[str, Any]], per_core: Any, kept: Mapping[BufferType, int], board: Board) -> Usage:
    """Returns the peaks of a call. ``trace`` and ``per_core``: from ``Session.capture``. ``kept``: bytes of cached programs."""
    peak = buffer_peaks(trace, board)
    # Up to 0.75 TTNN reports neither dataflow buffers nor scratch; from 0.80 on it does.
    return Usage(
        l1_bytes=per_core.peak_l1 + kept.get(BufferType.L1, 0),
        circular_bytes=per_core.peak_cb,
        dataflow_bytes=getattr(per_core, "peak_dataflow_buffer", 0),
        scratch_bytes=getattr(per_core, "peak_scratchpad", 0),
        l1_total_bytes=per_core.peak_total + kept.get(BufferType.L1, 0),
        l1_small_bytes=peak.get(BufferType.L1_SMALL, 0) + kept.get(BufferType.L1_SMALL, 0),
        dram_bytes=peak.get(BufferType.DRAM, 0) + kept.get(BufferType.DRAM, 0),
    )


def buffer_peaks(trace: Iterable[Mapping[str, Any]], board: Board) -> dict[BufferType, int]:
    """Returns the peak bytes per bank of the buffers of each kind, as if each of them were on every bank."""
    live: dict[BufferType, int] = defaultdict(int)
    peak: dict[BufferType, int] = defaultdict(int)
    for node in trace:
        if node["node_type"] not in ("buffer_allocate", "buffer_deallocate"):
            continue
        params = node["params"]
        kind = _BUFFER_KINDS.get(int(params["buffer_type"]))
        if kind is None:
            continue
        size = _bytes_per_bank(int(params["max_size_per_bank"]), int(params["size"]), board.region(kind).num_banks)
        live[kind] += size if node["node_type"] == "buffer_allocate" else -size
        peak[kind] = max(peak[kind], live[kind])
    return dict(peak)


def _bytes_per_bank(graph_bytes: int, size_bytes: int, banks: int) -> int:
    """Returns the bytes per bank of one buffer, restoring what 32 bits cut off: all banks together hold all of it.

    >>> _bytes_per_bank(8_406_376_448 - 2**32, 100_876_517_376, 12)
    8406376448
    """
    missing = ceil_div(size_bytes, banks) - graph_bytes
    return graph_bytes + ceil_div(missing, _WRAP) * _WRAP if size_bytes >= _WRAP and missing > 0 else graph_bytes
