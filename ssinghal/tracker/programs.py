"""The program buffers of programs: TTNN's graph has them when a program is built, and not when it runs again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

LIMIT = 50_000  # programs to remember; the oldest is forgotten
_L1_ALIGNMENT = 16
_ELIDED = "<"  # in the text of arguments: a value that TTNN does not spell out, such as <CoreRangeSet>
_CORES = re.compile(r"(\d+)-(\d+) - (\d+)-(\d+)")

# Programs whose last attribute but one is the L1 that was allocated before the call: TTNN's cache ignores it, too.
_KNOWS_ALLOCATED = frozenset({"Conv2dDeviceOperation", "Pool2D"})

Identity = Callable[[], "str | None"]
Size = tuple[int, str]  # bytes, and the source of an event


class ProgramKey:
    """What equal programs have in common. ``spelled``: their arguments as TTNN spells them out, which may leave some out."""

    def __init__(self, function: Mapping[str, Any], nth: int, identity: Identity) -> None:
        """``function``: the node of the device operation, the ``nth`` of that name in its call. ``identity``: returns the text
        of the call's arguments, from which those follow that TTNN leaves out; None if they are not known."""
        name, arguments = str(function["params"]["name"]), [str(argument) for argument in function.get("arguments") or ()]
        if name in _KNOWS_ALLOCATED and arguments and arguments[0].count(", ") >= 2:
            before, _, after = arguments[0].rsplit(", ", 2)
            arguments[0] = f"{before}, {after}"
        text = "\n".join([name, *arguments])
        self.spelled = _digest(text)
        self._is_complete = bool(arguments) and _ELIDED not in text
        self._nth, self._identity = nth, identity

    @cached_property
    def exact(self) -> bytes | None:
        """What equal programs alone have in common; None where that is not known."""
        if self._is_complete:
            return self.spelled
        call = self._identity()
        return None if call is None else _digest(f"{self.spelled.hex()} {self._nth} {call}")


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class ProgramSizes:
    """Bytes of program buffers on the fullest core, and what they are known from, of programs that were seen built."""

    def __init__(self, *, knows_all: bool) -> None:
        """``knows_all``: whether the device had no program before the first that is noted here."""
        self._knows_all = knows_all
        self._exact: dict[bytes, Size] = {}
        self._built: dict[bytes, Counter[Size | None]] = {}  # all programs that are spelled the same

    def find(self, key: ProgramKey, *, is_cached: bool) -> Size | None:
        """Returns what is known of a program. If TTNN has it in its cache it was built before: it is known, too, where all
        programs are equally large that are spelled like it."""
        if is_cached and self._knows_all:
            sizes = list(self._built.get(key.spelled, ()))
            if len(sizes) == 1 and sizes[0] is not None:
                return sizes[0]
        return None if key.exact is None else self._exact.get(key.exact)

    def note(self, key: ProgramKey, size: Size | None, *, instead: tuple[Size | None] | None = None) -> None:
        """A program was built. ``instead``: what was noted of it before."""
        sizes = self._built.setdefault(key.spelled, Counter())
        if instead is not None:
            sizes[instead[0]] -= 1
        sizes[size] += 1
        self._built[key.spelled] = +sizes
        if size is not None and key.exact is not None:
            self._exact[key.exact] = size
        if len(self._exact) > LIMIT:
            del self._exact[next(iter(self._exact))]
        if len(self._built) > LIMIT:
            self._knows_all = False
            self._built.clear()


class ProgramPlan:
    """Places program buffers as TTNN does: each above the highest that any of its cores has so far."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int, int], int] = {}

    def place(self, buffer: Mapping[str, Any]) -> None:
        """``buffer``: parameters of the node of a circular buffer, a dataflow buffer or a scratchpad."""
        if "1" in (str(buffer.get("globally_allocated")), str(buffer.get("borrows_memory"))):
            return  # in the buffer of a tensor
        cores = [
            (str(buffer["device_id"]), x, y)
            for left, top, right, bottom in (map(int, found) for found in _CORES.findall(buffer["core_range_set"]))
            for x in range(left, right + 1)
            for y in range(top, bottom + 1)
        ]
        end = max(self._ends.get(core, 0) for core in cores) - (-int(buffer["size"]) // _L1_ALIGNMENT) * _L1_ALIGNMENT
        self._ends.update(dict.fromkeys(cores, end))

    @property
    def size(self) -> int:
        """Bytes on the fullest core."""
        return max(self._ends.values(), default=0)
