"""The baseline file: the figures of an earlier run, one line per test in the order of their ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from ssinghal.core.boards import board_names, cluster_descriptor, load_board
from ssinghal.core.files import read_limited, write_given
from ssinghal.core.json_text import read_json
from ssinghal.core.tensors import Board, format_bytes
from ssinghal.device.releases import installed_release
from ssinghal.device.virtual import descriptor_in_force
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.pytest_plugin.memory.figures import MEMORY_NAMES, Figures, device_text, shown

VERSION = 1
MAX_BYTES = 256 * 2**20
Sizes = dict[str, int]


def virtual_board(environ: Mapping[str, str] = os.environ) -> Board | None:
    """Returns the built-in board that the environment makes virtual, None on a card or another board."""
    descriptor = descriptor_in_force(environ)
    names = [name for name in board_names() if cluster_descriptor(name) == descriptor]
    return load_board(names[0]) if names else None


class Baseline:
    """``device``, ``ttnn``: what the figures are of, empty in one that is new. ``tests``: peaks per test and memory.

    Raises:
        HarnessError: The file cannot be read, or a line of it is not one of a baseline.
    """

    def __init__(self, path: Path, tolerance: Fraction = Fraction(0), *, create: bool = False) -> None:
        self.path, self._tolerance = path, tolerance
        self.device = self.ttnn = ""
        self.tests: dict[str, Sizes] = {}
        if create and not path.exists():
            return
        try:
            if not path.exists():
                raise HarnessError(f"--tt-memory-baseline: no file {path}; --tt-memory-update creates it")
            lines = read_limited(path, MAX_BYTES).decode().splitlines()
        except (InvalidCase, UnicodeDecodeError) as error:
            raise HarnessError(f"--tt-memory-baseline: cannot read {path}: {error}") from error
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(number, line)
        if not self.device:
            raise HarnessError(f"{path}: no line with the format of a baseline")

    def _take(self, number: int, line: str) -> None:
        try:
            fields = read_json(line)
            if not self.device:
                if fields["format"] != VERSION:
                    raise HarnessError(f"{self.path}: a baseline of format {fields['format']}; expected {VERSION}")
                self.device, self.ttnn = str(fields["device"]), str(fields["ttnn"])
                return
            test = fields.pop("test")
            sizes = {name.removesuffix("_bytes"): size for name, size in fields.items()}
            if (
                not isinstance(test, str)
                or sizes.keys() - MEMORY_NAMES.keys()
                or not all(type(size) is int for size in sizes.values())
            ):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HarnessError(f"{self.path}:{number}: expected a line of a baseline, as --tt-memory-update writes") from None
        if test in self.tests:
            raise HarnessError(f"{self.path}:{number}: {test} has an earlier line")
        self.tests[test] = sizes

    def check_environment(self) -> None:
        """Compares release and virtual board before anything runs. On a card, the first device that a test opens is compared.

        Raises:
            HarnessError: They are not those of the file.
        """
        release, board = installed_release(), virtual_board()
        device = self.device if board is None else device_text(board.arch, board.grid)
        why = self._contradiction(device, self.ttnn if release is None else release.version)
        if why:
            raise HarnessError(why)

    def contradiction(self, figures: Figures) -> str:
        """Returns why figures cannot be compared with those of the file, empty where they can."""
        return self._contradiction(figures.device, figures.ttnn) if figures.device else ""

    def _contradiction(self, device: str, ttnn: str) -> str:
        if not self.device or (device, ttnn) == (self.device, self.ttnn):
            return ""
        return (
            f"{self.path} is of {self.device} with ttnn {self.ttnn}, and the tests run on {device} with ttnn {ttnn}: "
            "use another baseline file"
        )

    def elsewhere(self, tests: Iterable[str]) -> str:
        """Returns why tests that the file lacks may be in it under another path, empty if there is no sign of that.

        Before plugins are known, pytest takes FILE in ``--tt-memory-baseline FILE`` for a path of tests, from which its root
        folder follows, and from that the names of tests.
        """
        known = {_without_folders(test): test for test in self.tests}
        for test in sorted(tests):
            if _without_folders(test) in known:
                return (
                    f"{self.path} has {known[_without_folders(test)]}, and none of these tests, such as {test}: was it written "
                    f"from another root folder? Write --tt-memory-baseline=FILE: pytest takes FILE for a path of tests"
                )
        return ""

    def growth(self, test: str, figures: Figures) -> list[str]:
        """Returns in which memories a test takes more than it did, with the lines of the program that hold it."""
        earlier = self.tests.get(test)
        if earlier is None or self.contradiction(figures):
            return []
        if figures.unknown:
            return [f"{self.path}: growth cannot be checked: {figures.unknown}"]
        lines = []
        for memory, size in figures.comparable().items():
            before = earlier.get(memory, size if memory == "program" else 0)
            if size > before * (1 + self._tolerance):
                grown = f"{format_bytes(before)} -> {format_bytes(size)}, {size - before:,} B more than in {self.path}; held by"
                lines += [f"{MEMORY_NAMES[memory]}: {grown}", *shown(figures.lines.get(memory, ()))]
        return lines

    def write(self, measured: Mapping[str, Figures]) -> None:
        """Replaces the lines of the tests measured, and keeps all others.

        Raises:
            HarnessError: The file cannot be written.
        """
        some = next(iter(measured.values()), None)
        if some is None:
            return
        device, ttnn = self.device or some.device, self.ttnn or some.ttnn
        self.tests.update({test: figures.comparable() for test, figures in measured.items()})
        lines: list[dict[str, Any]] = [{"format": VERSION, "device": device, "ttnn": ttnn}]
        for test, sizes in sorted(self.tests.items()):
            lines.append({"test": test, **{f"{name}_bytes": sizes[name] for name in MEMORY_NAMES if name in sizes}})
        write_given(self.path, "\n".join(json.dumps(line) for line in lines))


def _without_folders(test: str) -> str:
    path, mark, name = test.partition("::")
    return f"{path.rpartition('/')[2]}{mark}{name}"
