"""The chips that messages come from, by the numbers in them: cores, the end of L1, banks of L1 and DRAM."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Core = tuple[int, int]

L1_ENDS = {"wormhole_b0": 1_499_136, "blackhole": 1_572_864, "grayskull": 1_048_576}
# The least that every build reserves at the bottom of an L1: its ring of kernel arguments and code has 69 KiB.
LEAST_BASE = 69 * 1024
_ARCH_NAMES = {
    "wormhole_b0": "a Wormhole chip (n150, n300, …)",
    "blackhole": "a Blackhole chip (p100, p150, …)",
    "grayskull": "a Grayskull chip (e75, e150)",
}
# Names of boards and architectures in a text, and whose they are. A Galaxy is of either.
_ARCH_OF = {
    **dict.fromkeys(("wormhole", "n150", "n300", "t3k", "t3000"), "wormhole_b0"),
    **dict.fromkeys(("blackhole", "p100", "p150", "p300"), "blackhole"),
    "grayskull": "grayskull",
}
_NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(_ARCH_OF)})(?![0-9])", re.IGNORECASE)
_NO_7X10 = (
    "a grid of 7x10 cores comes from a setting of the program that opens the device (DispatchCoreAxis.COL), with which TTNN's "
    "mock still checks programs against 8x9 cores"
)


@dataclass(frozen=True)
class Chip:
    """A chip, by the numbers in its messages.

    ``boards``: the built-in boards that are one such chip. ``kind``: of boards whose chips differ only in their grid.
    ``why_no_board``: why a virtual board does not have its grid. ``names``: of boards that are or have such chips.
    """

    arch: str
    grid: Core
    dram_banks: int
    what: str
    boards: tuple[str, ...] = ()
    kind: str = ""
    why_no_board: str = ""
    names: tuple[str, ...] = ()

    @property
    def l1_banks(self) -> int:
        return self.grid[0] * self.grid[1]

    def has_cores(self, ranges: Sequence[tuple[Core, Core]]) -> bool:
        return all(x < self.grid[0] and y < self.grid[1] for _, (x, y) in ranges)

    def is_filled_by(self, ranges: Sequence[tuple[Core, Core]]) -> bool:
        """Whether ``ranges`` are the complete grid."""
        return list(ranges) == [((0, 0), (self.grid[0] - 1, self.grid[1] - 1))]


# Grids: opened on a virtual board, but 7x10 for the reasons there.
_N300, _P150 = ("n300", "t3k", "t3000"), ("p150", "p300")
CHIPS = (
    Chip("wormhole_b0", (8, 8), 12, "an n150 or one chip of an n300 or T3000", ("n150", "n300"), names=("n150", *_N300)),
    Chip("wormhole_b0", (8, 7), 12, "one chip of an n300 that keeps a row of cores for dispatch", ("n300_8x7",), names=_N300),
    Chip("wormhole_b0", (8, 9), 12, "one chip of a Wormhole Galaxy (or slow dispatch)", ("wh_galaxy_8x9",)),
    Chip("wormhole_b0", (7, 10), 12, "one chip of a Wormhole Galaxy with 7x10 cores (a column is kept for dispatch)",
         why_no_board=_NO_7X10),
    Chip("blackhole", (11, 10), 7, "a p100", ("p100",), names=("p100",)),
    Chip("blackhole", (11, 10), 8, "a p150 with firmware 19.5.0 or later", ("p150",), "a p150 or p300", names=_P150),
    Chip("blackhole", (12, 10), 8, "a p150 or p300 with 12 columns of cores", ("p150_12x10",), "a p150 or p300", names=_P150),
    Chip("blackhole", (13, 10), 8, "a p150 with firmware before 19.5.0", ("p150_13x10",), "a p150 or p300", names=_P150),
)  # fmt: skip

# Cores that programs of known models are on, as evidence. Llama and Qwen for a Galaxy put their workers on columns 1 to 3 and
# 5 to 6 of 7x10 cores, and the reading of weights on the others.
_GALAXY_WORKERS = {((1, 0), (3, 9)), ((5, 0), (6, 9))}


def chips_of(arch: str) -> tuple[Chip, ...]:
    return tuple(chip for chip in CHIPS if chip.arch == arch)


def boards_of(chips: Sequence[Chip]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for chip in chips for name in chip.boards))


def boards_named(text: str) -> frozenset[str]:
    """Returns the boards and architectures that ``text`` names, as tests and logs of TT-Metalium do.

    >>> sorted(boards_named("test_block[wormhole_b0-4x8]: n300L, tt_metal/hw/inc/wormhole"))
    ['n300', 'wormhole']
    """
    return frozenset(name.lower() for name in _NAMED.findall(text))


def arch_named(names: Collection[str]) -> str:
    """Returns the only architecture of ``boards_named``; "" for none or several."""
    arches = {_ARCH_OF[name] for name in names}
    return arches.pop() if len(arches) == 1 else ""


def with_names(chips: Sequence[Chip], names: Collection[str]) -> Sequence[Chip]:
    """Returns those of ``chips`` that are of a named board; all where no board is named, or only others are."""
    named = [chip for chip in chips if any(name in names for name in chip.names)]
    return named or chips


def arch_in_words(arch: str) -> str:
    return _ARCH_NAMES[arch]


def core_ranges(cores: str) -> list[tuple[Core, Core]]:
    """Returns the first and last (column, row) of each range of ``Verdict.cores``.

    >>> core_ranges("0-0..7-6 0-7..3-7")
    [((0, 0), (7, 6)), ((0, 7), (3, 7))]
    """
    ranges = []
    for part in cores.split():
        ends = [tuple(map(int, end.split("-"))) for end in part.split("..")]
        ranges.append(((ends[0][0], ends[0][1]), (ends[-1][0], ends[-1][1])))
    return ranges


def by_likelihood(chips: Sequence[Chip], ranges: Sequence[tuple[Core, Core]]) -> tuple[Chip, ...]:
    """Returns the usual chips first, or those whose models are known to use these cores. A program on all cores of a small grid
    may as well be on some of a larger one."""
    of_galaxy = are_galaxy_workers(ranges)
    return tuple(sorted(chips, key=lambda chip: not (of_galaxy and chip.grid == (7, 10))))


def are_galaxy_workers(ranges: Sequence[tuple[Core, Core]]) -> bool:
    return bool(ranges) and set(ranges) <= _GALAXY_WORKERS


def chips_in_words(chips: Sequence[Chip]) -> str:
    """Returns the names of the chips, or of the kinds and architectures that they all are."""
    return ", or ".join(names_of(chips))


def names_of(chips: Sequence[Chip]) -> list[str]:
    return list(dict.fromkeys(_names(chips)))


def _names(chips: Sequence[Chip]) -> Iterator[str]:
    for arch in dict.fromkeys(chip.arch for chip in chips):
        own = [chip for chip in chips if chip.arch == arch]
        if len(own) == len(chips_of(arch)):
            yield _ARCH_NAMES[arch]
            continue
        for chip in own:
            kind = [other for other in own if chip.kind and other.kind == chip.kind]
            if len(kind) < 2:
                yield chip.what
                continue
            is_any_of_kind = len(kind) == sum(other.kind == chip.kind for other in CHIPS)
            columns = " or ".join(str(other.grid[0]) for other in kind)
            yield f"{chip.kind} ({'grid unknown' if is_any_of_kind else f'{columns} columns of cores'})"
