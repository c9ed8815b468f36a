"""What lives on a device while the call runs, as users say it: bytes in a kind of memory, or a file of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ssinghal.core.parsing import one_of
from ssinghal.core.tensors import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec, ceil_div, round_up
from ssinghal.errors import HarnessError, InvalidCase, unknown
from ssinghal.operators.case_json import read_lines
from ssinghal.remedy.trial import LiveSet, Resident

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|KiB|MiB|GiB)@(dram|l1)")
_KEYS = ("shape", "dtype", "layout", "memory", "bytes_per_bank")


def live_set(texts: Sequence[str], board: Board) -> LiveSet:
    """Each ``400MiB@dram`` (bytes over all banks), or a file with a tensor or a number of bytes per bank in each line.

    Raises:
        HarnessError: a text that is neither; a line of the file that is none of both, as ``file:line``; more than a bank has.
    """
    found = tuple(resident for text in texts for resident in _of(text, board))
    for memory in {resident.memory for resident in found}:
        held, bank = sum(r.bytes_per_bank for r in found if r.memory is memory), board.region(memory).bank_bytes
        if held > bank:
            kind = str(memory).upper()
            raise HarnessError(f"--live: {held:,} B of each {kind} bank, and one of {board.name} has {bank:,} B")
    return found


def _of(text: str, board: Board) -> Iterator[Resident]:
    found = _SIZE.fullmatch(text)
    if found is None:
        if "@" not in text and not Path(text).is_file():
            raise HarnessError(f"--live {text}: no such file, and no SIZE@MEMORY such as 400MiB@dram or 64KiB@l1")
        if not Path(text).is_file():
            raise HarnessError(f"--live {text}: expected SIZE@MEMORY in B, KiB, MiB or GiB: 400MiB@dram, 64KiB@l1; or a file")
        yield from _of_file(Path(text), board)
        return
    memory = BufferType(found[3])
    size = ceil_div(int(float(found[1]) * UNITS[found[2]]), board.region(memory).num_banks)
    yield Resident(memory, round_up(size, board.granule_bytes))


def _of_file(path: Path, board: Board) -> Iterator[Resident]:
    told = 'expected {"shape": [..], "dtype": .., "layout": .., "memory": ..} or {"bytes_per_bank": .., "memory": ..}'

    def parse(fields: Any) -> Resident:
        if not isinstance(fields, dict):
            raise InvalidCase(f"a JSON {type(fields).__name__}; {told}")
        return _of_line(fields, board)

    yield from read_lines(path, path.read_text(encoding="utf-8", errors="replace").splitlines(), parse)


def _of_line(given: dict[str, Any], board: Board) -> Resident:
    for key in given:
        if key not in _KEYS:
            raise InvalidCase(unknown("key", key, _KEYS))
    memory = one_of(BufferType, "memory", given.get("memory", BufferType.DRAM))
    if "bytes_per_bank" in given:
        size = given["bytes_per_bank"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidCase(f"bytes_per_bank {size!r}: expected a whole number from 1 on")
        return Resident(memory, round_up(size, board.granule_bytes))
    shape = given.get("shape")
    if not isinstance(shape, list):
        raise InvalidCase(f"shape {shape!r}: expected a list of sizes")
    dtype = one_of(DType, "dtype", given.get("dtype", DType.BFLOAT16))
    layout = one_of(Layout, "layout", given.get("layout", Layout.TILE))
    spec = TensorSpec(tuple(shape), dtype, layout, MemoryConfig(memory))
    return Resident(memory, spec.booked_bytes_per_bank(board))
