"""What lives on a device while the call runs, as users say it: bytes in a kind of memory, or a file of tensors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.remedy.trials import LiveSet, Resident
from ssinghal.specs import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec, ceil_div, round_up

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|KiB|MiB|GiB)@(dram|l1)")
_KEYS = {"shape", "dtype", "layout", "memory"}


def live_set(texts: Sequence[str], board: Board) -> LiveSet:
    """Each ``400MiB@dram`` (bytes over all banks), or a file with a tensor or a number of bytes per bank in each line.

    Raises:
        HarnessError: a text that is neither; a line of the file that is none of both, as ``file:line``.
    """
    return tuple(resident for text in texts for resident in _of(text, board))


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
    yield _resident(memory, size, board, text)


def _resident(memory: BufferType, bytes_per_bank: int, board: Board, where: str) -> Resident:
    size, bank = round_up(bytes_per_bank, board.granule_bytes), board.region(memory).bank_bytes
    if size > bank:
        raise HarnessError(f"{where}: {size:,} B of each {str(memory).upper()} bank, and one of {board.name} has {bank:,} B")
    return Resident(memory, size)


def _of_file(path: Path, board: Board) -> Iterator[Resident]:
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise InvalidCase(f"a JSON {type(fields).__name__}")
            yield _of_line(fields, board, where)
        except (json.JSONDecodeError, InvalidCase, ValueError, TypeError) as error:
            told = 'expected {"shape": [..], "dtype": .., "layout": .., "memory": ..} or {"bytes_per_bank": .., "memory": ..}'
            raise HarnessError(f"{where}: {error}; {told}") from error


def _of_line(given: dict[str, Any], board: Board, where: str) -> Resident:
    memory = BufferType(given.get("memory", "dram"))
    if "bytes_per_bank" in given:
        return _resident(memory, int(given["bytes_per_bank"]), board, where)
    spec = TensorSpec(
        tuple(given["shape"]) if "shape" in given else (),
        DType(given.get("dtype", "bfloat16")),
        Layout(given.get("layout", "tile")),
        MemoryConfig(memory),
    )
    return _resident(memory, spec.booked_bytes_per_bank(board), board, where)


__all__ = ["live_set"]
