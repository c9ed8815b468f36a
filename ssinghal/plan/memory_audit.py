"""Audits a plan: after every step, the computed sum of all live tensors must be what TTNN's allocator has.

Tensors are TTNN's own objects, so one that is still referenced somewhere stays on the device: only such a check finds it.
What is neither a weight nor a value belongs to the program cache, which changes only when a program is added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import BufferType, Layout, TensorSpec, round_up
from ssinghal.device.session import Session

KINDS = (BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL)
Buffers = dict[tuple[BufferType, int], int]  # (memory, address) -> bytes per bank, as the allocator books them


def stored_spec(session: Session, tensor: Any) -> TensorSpec:
    """Returns the spec of a tensor as stored, including tiles that TTNN padded beyond the tile's edge (prepared weights)."""
    spec = session.spec_of(tensor)
    padded = tuple(tensor.padded_shape)
    return replace(spec, shape=padded) if spec.layout is Layout.TILE and padded != spec.padded_shape else spec


class AuditError(Exception):
    """Computed and allocated bytes differ: an error of this program, not of the model."""


class MemoryAudit:
    """Compares computed and allocated bytes. ``cached``: per bank, kept by the program cache, by kind of memory."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.checked = 0
        self.cached: Mapping[BufferType, int] = dict.fromkeys(KINDS, 0)
        self._programs = -1
        self._weights: Buffers = {}
        self._kinds = {getattr(session.ttnn.BufferType, kind.name): kind for kind in KINDS}

    def keep(self, tensors: Iterable[Any]) -> None:
        """Adds the weights, which stay allocated to the end."""
        self._weights = self.buffers(tensors)

    @property
    def weights_bytes(self) -> int:
        return _sum(self._weights, BufferType.DRAM)

    def buffers(self, tensors: Iterable[Any]) -> Buffers:
        """Returns the computed buffers; one that several tensors share counts once, one that a call freed not at all."""
        board = self.session.board
        buffers: Buffers = {}
        for tensor in tensors:
            if not tensor.is_allocated():
                continue
            spec = stored_spec(self.session, tensor)
            buffers[spec.memory.buffer, tensor.buffer_address()] = spec.booked_bytes_per_bank(board)
        return buffers

    def check(self, where: str, tensors: Iterable[Any]) -> Mapping[BufferType, int]:
        """Returns the bytes per bank that are allocated now; raises AuditError where they differ from those computed.

        The program cache is measured again when it has more programs, and only then may it hold more.
        """
        session = self.session
        live = self.buffers(tensors)
        programs = session.device.num_program_cache_entries()
        if programs != self._programs:
            self._programs = programs
            self._measure_program_cache(where, live)
        allocated: dict[BufferType, int] = {}
        for kind in KINDS:
            weights = self.weights_bytes if kind is BufferType.DRAM else 0
            computed = weights + _sum(live, kind) + self.cached[kind]
            allocated[kind] = session.memory(kind).allocated_bytes
            if allocated[kind] != computed:
                raise AuditError(f"{where}: {kind.value}: {computed:,} B per bank computed, {allocated[kind]:,} B allocated")
        self.checked += 1
        return allocated

    def _measure_program_cache(self, where: str, live: Buffers) -> None:
        """Goes through the buffers of the device: all tensors must be among them; the others are the program cache's."""
        granule, weights = self.session.board.granule_bytes, self._weights
        others = dict.fromkeys(KINDS, 0)
        tensors = 0
        for buffer in self.session.buffers():
            key = self._kinds[buffer.buffer_type], buffer.address
            if key in weights or key in live:
                tensors += 1
            else:
                others[key[0]] += round_up(buffer.max_size_per_bank, granule)
        if tensors != len(weights) + len(live):
            raise AuditError(f"{where}: {len(weights) + len(live) - tensors} tensors are referenced but not allocated")
        self.cached = others


def _sum(buffers: Buffers, kind: BufferType) -> int:
    return sum(size for (k, _), size in buffers.items() if k is kind)
