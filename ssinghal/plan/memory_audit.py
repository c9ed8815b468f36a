"""The account of a plan: after every step, the sum of all live tensors by formula must be what TTNN's allocator has.

Tensors are TTNN's own objects, so one that is still referenced somewhere lives on the device: only such a check finds it.
What is neither a weight nor a value belongs to the program cache, which changes only when a program is added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ssinghal.core.tensors import BufferType, Layout, TensorSpec, round_up
from ssinghal.device.session import Session

KINDS = (BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL)
Buffers = dict[tuple[BufferType, int], int]  # (memory, address) -> bytes per bank, as the allocator books them


def stored_spec(session: Session, tensor: Any) -> TensorSpec:
    """As it is stored: tiles that TTNN padded beyond the tile's edge (prepared weights) are counted."""
    spec = session.spec_of(tensor)
    padded = tuple(tensor.padded_shape)
    return replace(spec, shape=padded) if spec.layout is Layout.TILE and padded != spec.padded_shape else spec


class Unbalanced(Exception):
    """Formula and allocator differ: a fault of this program, not of the model."""


class Ledger:
    """``cached``: bytes per bank that the program cache keeps, by kind of memory."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.checked = 0
        self.cached: Mapping[BufferType, int] = dict.fromkeys(KINDS, 0)
        self._programs = -1
        self._weights: Buffers = {}
        self._kinds = {getattr(session.ttnn.BufferType, kind.name): kind for kind in KINDS}

    def keep(self, tensors: Iterable[Any]) -> None:
        """Weights: there to the end."""
        self._weights = self.buffers(tensors)

    @cached_property
    def weights_bytes(self) -> int:
        return _sum(self._weights, BufferType.DRAM)

    def buffers(self, tensors: Iterable[Any]) -> Buffers:
        """By the formula; a buffer that several tensors share counts once."""
        board = self.session.board
        found: Buffers = {}
        for tensor in tensors:
            spec = stored_spec(self.session, tensor)
            found[spec.memory.buffer, tensor.buffer_address()] = spec.booked_bytes_per_bank(board)
        return found

    def check(self, where: str, tensors: Iterable[Any]) -> Mapping[BufferType, int]:
        """Bytes per bank that are allocated now. Raises Unbalanced.

        The program cache is looked through when it has grown, and only then may it hold more.
        """
        session = self.session
        live = self.buffers(tensors)
        programs = session.device.num_program_cache_entries()
        if programs != self._programs:
            self._programs = programs
            self._look_through(where, live)
        total: dict[BufferType, int] = {}
        for kind in KINDS:
            weights = self.weights_bytes if kind is BufferType.DRAM else 0
            expected = weights + _sum(live, kind) + self.cached[kind]
            total[kind] = session.memory(kind).allocated_bytes
            if total[kind] != expected:
                raise Unbalanced(f"{where}: {kind.value}: {expected:,} B per bank by formula, {total[kind]:,} B allocated")
        self.checked += 1
        return total

    def _look_through(self, where: str, live: Buffers) -> None:
        """Every buffer of the device: ours must be among them, and the others are the program cache's."""
        granule, weights = self.session.board.granule_bytes, self._weights
        others = dict.fromkeys(KINDS, 0)
        found = 0
        for buffer in self.session.ttnn._ttnn.reports.get_buffers(self.session.device):
            key = self._kinds[buffer.buffer_type], buffer.address
            if key in weights or key in live:
                found += 1
            else:
                others[key[0]] += round_up(buffer.max_size_per_bank, granule)
        if found != len(weights) + len(live):
            raise Unbalanced(f"{where}: {len(weights) + len(live) - found} tensors are referenced, but not allocated")
        self.cached = others


def _sum(buffers: Buffers, kind: BufferType) -> int:
    return sum(size for (k, _), size in buffers.items() if k is kind)
