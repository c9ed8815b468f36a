"""Where a tensor is: its memory, and how it is cut into shards over cores or banks. Imports neither torch nor ttnn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ssinghal.errors import InvalidCase

Core = tuple[int, int]  # column and row
CoreRange = tuple[Core, Core]  # first and last core of a rectangle, both in it


class TextEnum(str, Enum):
    """Base of enums whose members are texts (Python 3.10 has no StrEnum)."""

    def __str__(self) -> str:
        return str(self.value)


class BufferType(TextEnum):
    """Kinds of memory: DRAM, the L1 of the cores, and the part of L1 that is set aside when a device is opened."""

    DRAM = "dram"
    L1 = "l1"
    L1_SMALL = "l1_small"


class ShardKind(TextEnum):
    """How a tensor is cut: by rows, by columns, by both, or (ND) by boxes of any rank."""

    HEIGHT = "height"
    WIDTH = "width"
    BLOCK = "block"
    ND = "nd"


class Orientation(TextEnum):
    """In which order shards go to the cores: along rows first, or along columns."""

    ROW_MAJOR = "row_major"
    COL_MAJOR = "col_major"


class Distribution(TextEnum):
    """How ND shards go to the cores: one after the other to each, so that a core may hold several; as a grid of shards on a
    grid of cores; or several consecutive ones to a core."""

    ROUND_ROBIN_1D = "round_robin_1d"
    GRID_2D = "grid_2d"
    CONTIGUOUS_1D = "contiguous_1d"


@dataclass(frozen=True)
class Cores:
    """Cores as a CoreRangeSet has them: ``ranges``, rectangles that do not overlap. In DRAM a "core" is a bank, in row 0.

    Raises:
        InvalidCase: There is none, a range ends before it starts, or two overlap.

    >>> str(Cores.grid(8, 8)), str(Cores((((0, 0), (7, 2)), ((0, 3), (2, 3))))), Cores.grid(8, 8).count
    ('8x8', '0,0-7,2+0,3-2,3', 64)
    """

    ranges: tuple[CoreRange, ...]

    def __post_init__(self) -> None:
        if not self.ranges:
            raise InvalidCase("core ranges: expected at least one")
        for (left, top), (right, bottom) in self.ranges:
            if not (0 <= left <= right and 0 <= top <= bottom):
                raise InvalidCase(f"cores {left},{top}-{right},{bottom}: expected the first core, then the last one")
        for number, a in enumerate(self.ranges):
            for b in self.ranges[:number]:
                if all(a[0][axis] <= b[1][axis] and b[0][axis] <= a[1][axis] for axis in (0, 1)):
                    raise InvalidCase(f"core ranges {range_text(b)} and {range_text(a)} overlap")

    @classmethod
    def grid(cls, columns: int, rows: int) -> Cores:
        """Returns the rectangle of ``columns`` x ``rows`` cores that starts at core (0, 0)."""
        if min(columns, rows) < 1:
            raise InvalidCase(f"a grid of {columns}x{rows} cores: sizes must be at least 1")
        return cls((((0, 0), (columns - 1, rows - 1)),))

    @classmethod
    def first(cls, count: int, grid: tuple[int, int], orientation: Orientation = Orientation.ROW_MAJOR) -> Cores:
        """Returns the first ``count`` cores of a board of ``grid`` columns x rows, row by row or column by column, as
        ``ttnn.num_cores_to_corerangeset`` does.

        >>> str(Cores.first(12, (8, 8))), str(Cores.first(12, (8, 8), Orientation.COL_MAJOR))
        ('0,0-7,0+0,1-3,1', '0,0-0,7+1,0-1,3')
        """
        by_rows = orientation is Orientation.ROW_MAJOR
        length = grid[0] if by_rows else grid[1]
        full, rest = divmod(count, length)
        lines: list[CoreRange] = [((0, 0), (length - 1, full - 1))] if full else []
        lines += [((0, full), (rest - 1, full))] if rest else []
        return cls(tuple(lines) if by_rows else tuple((start[::-1], end[::-1]) for start, end in lines))

    @cached_property
    def count(self) -> int:
        return sum((right - left + 1) * (bottom - top + 1) for (left, top), (right, bottom) in self.ranges)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Columns and rows of the rectangle from (0, 0) to the last core."""
        return max(end[0] for _, end in self.ranges) + 1, max(end[1] for _, end in self.ranges) + 1

    @property
    def box(self) -> tuple[int, int]:
        """Columns and rows of the smallest rectangle around all ranges."""
        columns, rows = self.bounds
        return columns - min(start[0] for start, _ in self.ranges), rows - min(start[1] for start, _ in self.ranges)

    @property
    def is_rectangle(self) -> bool:
        """Whether it is one range: TTNN does not join ranges, even where together they are a rectangle."""
        return len(self.ranges) == 1

    @property
    def is_grid(self) -> bool:
        """Whether it is one rectangle that starts at core (0, 0)."""
        return self.is_rectangle and self.ranges[0][0] == (0, 0)

    def __str__(self) -> str:
        if self.is_grid:
            return "{}x{}".format(*self.bounds)
        return "+".join(map(range_text, self.ranges))


def range_text(cores: CoreRange) -> str:
    """Returns ``left,top-right,bottom``, of a single core ``left,top``."""
    (left, top), (right, bottom) = cores
    return f"{left},{top}" if cores[0] == cores[1] else f"{left},{top}-{right},{bottom}"


@dataclass(frozen=True)
class ShardSpec:
    """A tensor cut into equal shards, one per core.

    ``shape`` is the shard's (height, width) in elements, over the padded tensor seen as 2-D (leading dims folded into the
    height). HEIGHT and WIDTH shards fill the cores in the order of ``orientation``; BLOCK shards follow rows and columns of the
    grid. ND shards have sizes for the last dims of the tensor, whose other dims are folded into the first of these, and go to
    the cores as ``distribution`` has it.
    """

    # How the tensor is cut.
    kind: ShardKind
    shape: tuple[int, ...]
    cores: Cores
    orientation: Orientation = Orientation.ROW_MAJOR
    distribution: Distribution = Distribution.ROUND_ROBIN_1D

    def __str__(self) -> str:
        return str(Sharding.of(self))


@dataclass(frozen=True)
class MemoryConfig:
    """Where a tensor is: interleaved over all banks of ``buffer``, or cut into shards as ``shard`` has it.

    >>> str(MemoryConfig(BufferType.L1, ShardSpec(ShardKind.WIDTH, (576, 480), Cores.grid(8, 6))))
    'l1:width@8x6:576x480'
    """

    buffer: BufferType = BufferType.DRAM
    shard: ShardSpec | None = None

    def __str__(self) -> str:
        return self.buffer.value if self.shard is None else f"{self.buffer}:{self.shard}"


@dataclass(frozen=True)
class Sharding:
    """How a call wants a tensor sharded. What is None is chosen once tensor and board are known (``sharding.complete``)."""

    # How the tensor is cut.
    kind: ShardKind
    # Cores, or how many of them, row by row.
    cores: Cores | int | None = None
    # Sizes of a shard in elements, the order of the cores, and how nd shards go to them.
    shape: tuple[int, ...] | None = None
    orientation: Orientation = Orientation.ROW_MAJOR
    distribution: Distribution = Distribution.ROUND_ROBIN_1D

    def __str__(self) -> str:
        cores = "" if self.cores is None else f"@{self.cores}"
        shape = "" if self.shape is None else f":{'x'.join(map(str, self.shape))}"
        turned = "" if self.orientation is Orientation.ROW_MAJOR else f":{self.orientation}"
        spread = "" if self.distribution is Distribution.ROUND_ROBIN_1D else f":{self.distribution}"
        return f"{self.kind}{cores}{shape}{turned}{spread}"

    @classmethod
    def of(cls, spec: ShardSpec) -> Sharding:
        """Returns the request for exactly this spec."""
        return cls(spec.kind, spec.cores, spec.shape, spec.orientation, spec.distribution)


@dataclass(frozen=True)
class MemoryRequest:
    """Where a call wants a tensor: ``l1``, ``dram``, or sharded, as in ``l1:block@8x8``."""

    # The memory, and how the tensor is cut in it; None: it is interleaved.
    buffer: BufferType = BufferType.DRAM
    sharding: Sharding | None = None

    def __str__(self) -> str:
        return self.buffer.value if self.sharding is None else f"{self.buffer}:{self.sharding}"

    @property
    def interleaved(self) -> MemoryConfig:
        """The memory config without the shards."""
        return MemoryConfig(self.buffer)
