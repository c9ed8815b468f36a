"""What users may demand of placements in L1: how much of it stays free, and where the results of some modules are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from ssinghal.core.memory_config import BufferType, MemoryConfig, MemoryRequest, Orientation, Sharding, ShardKind
from ssinghal.core.parsing import size_in_bytes
from ssinghal.core.sharding import check_cores, memory_request
from ssinghal.core.tensors import Board
from ssinghal.errors import InvalidCase, unknown

_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) *%", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,12}", re.ASCII)
KINDS = (ShardKind.HEIGHT, ShardKind.BLOCK, ShardKind.WIDTH)
PIN_FORM = (
    "expected MODULES=WHERE, as layer1.*=height: WHERE is height, block, width, l1, dram or a memory such as l1:block@8x8"
)
NEAREST = 3  # modules that a message names


@dataclass(frozen=True)
class Headroom:
    """What stays free of each core's L1, in bytes or as a percentage of what it has for tensors and program buffers."""

    size: int = 0
    percent: Fraction = Fraction(0)

    @classmethod
    def of(cls, value: Any, what: str = "headroom") -> Headroom:
        """Reads a percentage, a number of bytes, or a size such as ``64 KiB``.

        Raises:
            InvalidCase: It is none of them, or all of L1.

        >>> str(Headroom.of("10%")), str(Headroom.of("64 KiB")), Headroom.of(1000).bytes_of(1_393_312)
        ('10%', '65536', 1000)
        """
        text = str(value).strip()
        share = _SHARE.fullmatch(text)
        try:
            if share is None:
                return cls(size_in_bytes(int(text) if _COUNT.fullmatch(text) else value))
            if Fraction(share[1]) < 100:
                return cls(percent=Fraction(share[1]))
        except InvalidCase:
            pass
        raise InvalidCase(f"{what} {text}: expected a share below 100% such as 10%, or bytes such as 65536 or '64 KiB'")

    def bytes_of(self, l1_bank_bytes: int) -> int:
        """Returns the bytes of a core that has ``l1_bank_bytes``; a percentage is rounded up."""
        return self.size + -int(-self.percent * l1_bank_bytes // 100)

    def __bool__(self) -> bool:
        return bool(self.size or self.percent)

    def __str__(self) -> str:
        return f"{float(self.percent):g}%" if self.percent else str(self.size)


NO_HEADROOM = Headroom()


@dataclass(frozen=True)
class Pin:
    """Where the results of the calls of some modules must be when their step is done.

    What ``where`` leaves out is open: ``height`` and ``l1:height`` are shards of any size on any cores, and ``l1`` is any place
    in L1, interleaved or in shards.

    Attributes:
        modules: A pattern of module paths, as a shell has it for files: ``layer1.*``, ``*.conv1``.
        where: As it was written.
    """

    modules: str
    where: str

    @classmethod
    def of(cls, text: str, what: str = "pin") -> Pin:
        """Reads a pin such as ``layer1.*=l1:block@8x8``.

        Raises:
            InvalidCase: It is none.
        """
        modules, mark, where = text.rpartition("=")
        if not mark or not modules.strip() or not where.strip():
            raise InvalidCase(f"{what} {text}: {PIN_FORM}")
        pin = cls(modules.strip(), where.strip())
        try:
            _ = pin.request
        except InvalidCase as error:
            raise InvalidCase(f"{what} {text}: {error}") from None
        return pin

    @property
    def request(self) -> MemoryRequest:
        kinds = {str(kind): kind for kind in KINDS}
        if self.where in kinds:
            return MemoryRequest(BufferType.L1, Sharding(kinds[self.where]))
        if self.where.partition(":")[0] not in (BufferType.DRAM, BufferType.L1):
            raise InvalidCase(unknown("place", self.where, (*kinds, "l1", "dram", "l1:block@8x8")))
        return memory_request(self.where)

    def matches(self, module: str) -> bool:
        return fnmatchcase(module, self.modules)

    def allows(self, memory: MemoryConfig) -> bool:
        """Returns whether a tensor there is where the pin has it."""
        request, shard = self.request, memory.shard
        if memory.buffer is not request.buffer:
            return False
        wanted = request.sharding
        if wanted is None:
            return request.buffer is BufferType.L1 or shard is None
        if shard is None or shard.kind is not wanted.kind:
            return False
        if isinstance(wanted.cores, int):
            cores = shard.cores.count == wanted.cores
        else:
            cores = wanted.cores is None or str(shard.cores) == str(wanted.cores)
        turned = wanted.orientation is Orientation.ROW_MAJOR or shard.orientation is wanted.orientation
        return cores and turned and wanted.shape in (None, shard.shape)

    def __str__(self) -> str:
        return f"{self.modules}={self.where}"


def pins_of_file(value: Any) -> tuple[Pin, ...]:
    """Reads pins from a policy's file: a mapping of patterns to places. InvalidCase for anything else."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise InvalidCase("pins: expected a mapping such as {layer1.*: height}")
    return tuple(Pin.of(f"{modules}={where}", "pins:") for modules, where in value.items())


def pin_of(pins: Iterable[Pin], module: str) -> Pin | None:
    """Returns the pin of a module: the last one that matches."""
    return next((pin for pin in reversed(tuple(pins)) if pin.matches(module)), None)


def check_pins(pins: Iterable[Pin], modules: Iterable[str]) -> None:
    """Raises InvalidCase for a pin that matches none of the modules that make calls."""
    known = list(dict.fromkeys(modules))
    for pin in pins:
        if not any(map(pin.matches, known)):
            raise InvalidCase(f"pin {pin}: no call is made in such a module; {_nearest(pin.modules, known)}")


def check_pin_cores(pins: Iterable[Pin], board: Board) -> None:
    """Raises InvalidCase for a pin to cores or DRAM banks that the board lacks."""
    for pin in pins:
        request = pin.request
        if request.sharding is None:
            continue
        try:
            check_cores(request.buffer, request.sharding, board)
        except InvalidCase as error:
            raise InvalidCase(f"pin {pin}: {error}") from None


def _nearest(pattern: str, modules: list[str]) -> str:
    """Names the modules whose paths are the most like a pattern: those within the module that it names, else similar ones."""
    plain = pattern.rstrip("*").rstrip(".")
    within = [module for module in modules if plain and module.startswith(f"{plain}.")]
    named = within or get_close_matches(plain, modules, NEAREST, 0.4)
    return f"nearest: {', '.join((named or modules)[:NEAREST])}"
