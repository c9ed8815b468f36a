"""Reads the other buffers that stay allocated during a call: bytes in a kind of memory, or a file of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ssinghal.core.files import is_file, read_limited
from ssinghal.core.parsing import dtype_named, one_of, size_in_bytes
from ssinghal.core.tensors import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec, ceil_div, round_up
from ssinghal.errors import HarnessError, InvalidCase, unknown
from ssinghal.operators.case_json import read_lines
from ssinghal.remedy.trial import LiveSet, Resident

MAX_LIVE_BYTES = 64 * 2**20
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:B|KiB|MiB|GiB))@(dram|l1)")
_KEYS = ("shape", "dtype", "layout", "memory", "bytes_per_bank")


def live_set(texts: Sequence[str], board: Board) -> LiveSet:
    """Reads texts such as ``400MiB@dram`` (bytes over all banks), or files with a tensor or a number of bytes per bank in each
    line.

    Raises:
        HarnessError: a text or a line (as ``file:line``) is neither, or the buffers take more than a bank has.
    """
    residents = tuple(resident for text in texts for resident in _of(text, board))
    for memory in {resident.memory for resident in residents}:
        held, bank = sum(r.bytes_per_bank for r in residents if r.memory is memory), board.region(memory).bank_bytes
        if held > bank:
            kind = str(memory).upper()
            raise HarnessError(f"--live: {held:,} B of each {kind} bank, which has {bank:,} B on {board.name}")
    return residents


def _of(text: str, board: Board) -> Iterator[Resident]:
    match = _SIZE.fullmatch(text)
    if match is None:
        if "@" not in text and not is_file(text):
            raise HarnessError(f"--live {text}: no such file, and not SIZE@MEMORY such as 400MiB@dram or 64KiB@l1")
        if not is_file(text):
            raise HarnessError(f"--live {text}: expected SIZE@MEMORY in B, KiB, MiB or GiB: 400MiB@dram, 64KiB@l1; or a file")
        yield from _of_file(Path(text), board)
        return
    memory = BufferType(match[2])
    size = ceil_div(size_in_bytes(match[1]), board.region(memory).num_banks)
    yield Resident(memory, round_up(size, board.granule_bytes))


def _of_file(path: Path, board: Board) -> Iterator[Resident]:
    expected = 'expected {"shape": [..], "dtype": .., "layout": .., "memory": ..} or {"bytes_per_bank": .., "memory": ..}'

    def parse(fields: Any) -> Resident:
        if not isinstance(fields, dict):
            raise InvalidCase(f"a JSON {type(fields).__name__}; {expected}")
        return _of_line(fields, board)

    yield from read_lines(path, read_limited(path, MAX_LIVE_BYTES).decode("utf-8", "replace").splitlines(), parse)


def _of_line(fields: dict[str, Any], board: Board) -> Resident:
    for key in fields:
        if key not in _KEYS:
            raise InvalidCase(unknown("key", key, _KEYS))
    memory = one_of(BufferType, "memory", fields.get("memory", BufferType.DRAM))
    if "bytes_per_bank" in fields:
        size = fields["bytes_per_bank"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidCase(f"bytes_per_bank {size!r}: expected an integer of at least 1")
        return Resident(memory, round_up(size, board.granule_bytes))
    shape = fields.get("shape")
    if not isinstance(shape, list):
        raise InvalidCase(f"shape {shape!r}: expected a list of sizes")
    dtype = dtype_named(fields.get("dtype", DType.BFLOAT16))
    layout = one_of(Layout, "layout", fields.get("layout", Layout.TILE))
    spec = TensorSpec(tuple(shape), dtype, layout, MemoryConfig(memory))
    return Resident(memory, spec.booked_bytes_per_bank(board))
