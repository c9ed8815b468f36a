"""Models the choice of placements: how a value is held, how a step is called, and what that call was seen to need.

Nothing here knows TTNN. ``probing`` fills in outcomes from real calls, ``search`` chooses among them, ``executor`` makes the
chosen calls, ``refine`` repeats the choice where the run of the complete model fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ssinghal.core.memory_config import BufferType, MemoryConfig
from ssinghal.core.tensors import Board, DType, Layout, Shape, TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.plan.axis_layout import AxisLayout

DRAM = MemoryConfig(BufferType.DRAM)
L1 = MemoryConfig(BufferType.L1)


@dataclass(frozen=True)
class Form:
    """How a value is held on the device. ``shape``: of the device tensor, whose rows have the atoms of ``axes`` in order."""

    memory: MemoryConfig
    shape: Shape
    dtype: DType
    layout: Layout
    axes: AxisLayout

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype, self.layout, self.memory)

    @property
    def in_l1(self) -> bool:
        return self.memory.buffer is BufferType.L1

    def l1_bytes(self, board: Board) -> int:
        """Returns the bytes that the allocator books in each core's L1, 0 for a tensor in DRAM."""
        return self.spec.booked_bytes_per_bank(board) if self.in_l1 else 0

    def total_bytes(self, board: Board) -> int:
        """Returns the bytes of all pages, over all banks."""
        return self.spec.allocated_bytes(board)


@dataclass(frozen=True)
class StepChoice:
    """How a step is called.

    Attributes:
        moves: By position among the operands, where an activation is moved for the call; it then replaces the value, as a
            conversion does. An interleaved tensor is moved there before its layout is converted, to shards after that.
        memory: Where the call is to put its results; None where TTNN chooses, as a sharded convolution does.
        settings: The call's own settings by TTNN's names, such as ``conv_config``, in the form of a case's; see ``frozen``.
        after: Where the results are moved once the call has returned; None: they stay.
        spills: Positions of operands, read again later, that are moved to DRAM after the call.
        compact: Whether all tensors in L1 are moved together before the call (``ttnn.reallocate``).
    """

    moves: tuple[tuple[int, MemoryConfig], ...] = ()
    memory: MemoryConfig | None = DRAM
    settings: tuple[tuple[str, Any], ...] = ()
    after: MemoryConfig | None = None
    spills: tuple[int, ...] = ()
    compact: bool = False

    def move_of(self, position: int) -> MemoryConfig | None:
        return dict(self.moves).get(position)

    @cached_property
    def settings_count(self) -> int:
        """How many values the settings state."""
        return sum(map(_leaves, (value for _, value in self.settings)))

    @property
    def settings_of_case(self) -> dict[str, Any]:
        return {name: thawed(value) for name, value in self.settings}

    @property
    def plain(self) -> StepChoice:
        """The choice without what a search adds to it: spills, and moving tensors together."""
        return replace(self, spills=(), compact=False)

    def with_compaction(self) -> StepChoice:
        return replace(self, compact=True)


def _leaves(value: Any) -> int:
    """Returns the number of values in a frozen setting."""
    if not isinstance(value, tuple):
        return 1
    kind, *items = value
    return sum(_leaves(item) for _, item in items) if kind == "{" else sum(map(_leaves, items))


def frozen(value: Any) -> Any:
    """Returns a setting of a case (JSON) as a value that can be a key: mappings and lists as tuples.

    >>> thawed(frozen({"type": "Conv2dConfig", "core_grid": [8, 8]}))
    {'type': 'Conv2dConfig', 'core_grid': [8, 8]}
    """
    if isinstance(value, Mapping):
        return ("{", *((key, frozen(item)) for key, item in value.items()))
    return ("[", *map(frozen, value)) if isinstance(value, list) else value


def thawed(value: Any) -> Any:
    """Returns the setting that ``frozen`` made a key of."""
    if not isinstance(value, tuple):
        return value
    kind, *items = value
    return {key: thawed(item) for key, item in items} if kind == "{" else [thawed(item) for item in items]


IN_DRAM = StepChoice()  # as the policies port and eager call every step
Choices = Mapping[int, StepChoice]  # by step; a step without one is called with IN_DRAM


@dataclass(frozen=True, order=True)
class Traffic:
    """What calls move, in bytes over all banks, counted at each call of TTNN.

    ``dram_bytes``: operands read from DRAM, weights among them, and results written to it; a view moves nothing.
    ``reshard_bytes``: tensors written to L1 by calls (or by TTNN within a call) that only change how a tensor is sharded, and
    operands of element-wise calls whose result is sharded otherwise.
    ``changes``: how many such calls there were, and conversions of the layout.
    """

    dram_bytes: int = 0
    reshard_bytes: int = 0
    changes: int = 0

    @property
    def cost(self) -> tuple[int, int]:
        """What a search minimizes: bytes first, then changes."""
        return self.dram_bytes + self.reshard_bytes, self.changes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.dram_bytes + other.dram_bytes, self.reshard_bytes + other.reshard_bytes, self.changes + other.changes
        )


@dataclass(frozen=True)
class Held:
    """A value after a step: its form, and the operand whose buffer it shares (by position), None for a buffer of its own."""

    form: Form
    shares: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What a call did, alone on the device with its operands and weights.

    Attributes:
        operands: The activations among the operands after the call, by position; a conversion may have replaced them.
        results: The results.
        l1_peak_bytes: The most bytes of a core's L1 at any moment of the step: tensors and program buffers together, with those
            of the operands, as if nothing else were there.
        program_bytes: The largest program buffers of the step's programs, per core.
        l1_small_bytes: Tables that the programs keep.
        dram_peak_bytes: The most bytes per DRAM bank, without weights.
        traffic: What was moved.
        failure: Why TTNN rejected the call; the rest is then empty.
        calls: The TTNN calls that were made, for the report ("ttnn.conv2d").
    """

    operands: Mapping[int, Held] = field(default_factory=dict)
    results: tuple[Held, ...] = ()
    l1_peak_bytes: int = 0
    program_bytes: int = 0
    l1_small_bytes: int = 0
    dram_peak_bytes: int = 0
    traffic: Traffic = Traffic()
    failure: Verdict | None = None
    calls: tuple[str, ...] = ()
