"""The account of a plan: after every step, the sum of all live tensors by formula must be what TTNN's allocator has.

Tensors are TTNN's own objects, so one that is still referenced somewhere lives on the device: only such a check finds it.
What is neither a weight nor a value belongs to the program cache, which changes only when a program is added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ssinghal.device.session import Session
from ssinghal.specs import BufferType, Layout, TensorSpec, round_up

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
        self._cache: Buffers = {}
        self._programs = -1
        self._weights: Buffers = {}

    def keep(self, tensors: Iterable[Any]) -> None:
        """Weights: there to the end."""
        self._weights = self.buffers(tensors)

    @property
    def weights_bytes(self) -> int:
        return sum(size for (kind, _), size in self._weights.items() if kind is BufferType.DRAM)

    def buffers(self, tensors: Iterable[Any]) -> Buffers:
        """By the formula; a buffer that several tensors share counts once."""
        board = self.session.board
        found: Buffers = {}
        for tensor in tensors:
            spec = stored_spec(self.session, tensor)
            found[spec.memory.buffer, tensor.buffer_address()] = spec.booked_bytes_per_bank(board)
        return found

    def check(self, where: str, tensors: Iterable[Any]) -> Mapping[BufferType, int]:
        """Bytes per bank that are allocated now. Raises Unbalanced."""
        session = self.session
        ours = {**self._weights, **self.buffers(tensors)}
        there = self._allocated()
        gone = ours.keys() - there.keys()
        if gone:
            raise Unbalanced(f"{where}: {len(gone)} tensors are referenced, but not allocated")
        others = {key: size for key, size in there.items() if key not in ours}
        programs = session.device.num_program_cache_entries()
        if others != self._cache and programs == self._programs:
            extra = sum(others.values()) - sum(self._cache.values())
            raise Unbalanced(f"{where}: {extra:+,} B per bank are allocated that are neither a weight, a value nor a program's")
        self._cache, self._programs = others, programs
        total: dict[BufferType, int] = {}
        for kind in KINDS:
            expected = sum(size for (k, _), size in (*ours.items(), *others.items()) if k is kind)
            total[kind] = session.memory(kind).allocated_bytes
            if total[kind] != expected:
                raise Unbalanced(f"{where}: {kind.value}: {expected:,} B per bank by formula, {total[kind]:,} B allocated")
        self.cached = {kind: sum(size for (k, _), size in others.items() if k is kind) for kind in KINDS}
        self.checked += 1
        return total

    def _allocated(self) -> Buffers:
        granule = self.session.board.granule_bytes
        found: Buffers = {}
        for buffer in self.session.ttnn._ttnn.reports.get_buffers(self.session.device):
            kind = BufferType(buffer.buffer_type.name.lower())
            found[kind, buffer.address] = round_up(buffer.max_size_per_bank, granule)
        return found


__all__ = ["KINDS", "Ledger", "Unbalanced", "stored_spec"]
