"""How a call is made otherwise: as pieces, folded, turned, in place, with what else lives on the device moved away.

A rewrite is written once, against a ``RewriteBackend``. On a device the hand's ``ttnn`` is TTNN itself, every call noted; in
``ssinghal.remedy.equivalence`` it is torch, which shows that the values stay. Imports neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import BufferType, ceil_div
from ssinghal.operators import named
from ssinghal.operators.binding import BoundCall
from ssinghal.operators.dim_rule import Axes, Dims
from ssinghal.operators.dims import axes_of
from ssinghal.remedy.trial import RewriteName

(SOFTMAX,) = named("softmax")
Params = Mapping[str, Any]
Rewrite = Callable[["RewriteBackend", Params], Sequence[Any]]


class RewriteBackend(ABC):
    """What a rewrite has: the operands of ``case`` as they are placed, and the means to call."""

    ttnn: Any
    bound: BoundCall
    tensors: list[Any]
    residents: list[Any]

    @property
    def case(self) -> Case:
        return self.bound.case

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.bound.attrs

    @abstractmethod
    def call(self, case: Case, tensors: Sequence[Any], **out: Any) -> list[Any]:
        """The results of ``case``'s operator on ``tensors``. ``out``: where they go, else where the case's placement says."""

    @abstractmethod
    def in_memory(self, buffer: BufferType) -> Any:
        """TTNN's memory config for tensors that are interleaved there."""

    @abstractmethod
    def piece(self, number: int) -> AbstractContextManager[None]:
        """Around the calls of one piece of many."""

    @abstractmethod
    def is_in(self, tensor: Any, buffer: BufferType) -> bool:
        """Whether it lies there now."""

    @abstractmethod
    def shares(self, a: Any, b: Any) -> bool:
        """Whether the two are one buffer: to free one is to free the other."""

    def free(self, *tensors: Any) -> None:
        for tensor in tensors:
            self.ttnn.deallocate(tensor)


def cuts(units: int, count: int, multiple: int = 1) -> list[tuple[int, int]]:
    """``count`` stretches of 0..units or fewer, equal but for the last, each but that one a multiple of ``multiple``.

    >>> cuts(100, 3, 32)
    [(0, 64), (64, 100)]
    """
    size = ceil_div(ceil_div(units, count), multiple) * multiple
    return [(start, min(start + size, units)) for start in range(0, units, size)]


def cut_out(hand: RewriteBackend, tensor: Any, dims: Dims, axis: int, begin: int, end: int, buffer: BufferType) -> Any:
    """The part of ``tensor`` that goes with a stretch of the axis; the tensor itself where it has no dim of that axis."""
    at = [i for i, dim in enumerate(dims) if dim is not None and dim[0] == axis]
    if not at:
        return tensor
    shape = tuple(tensor.shape)
    starts, ends = [0] * len(shape), list(shape)
    for i in at:
        starts[i], ends[i] = begin * _step(dims, i), end * _step(dims, i)
    return hand.ttnn.slice(tensor, starts, ends, memory_config=hand.in_memory(buffer))


def _step(dims: Dims, i: int) -> int:
    dim = dims[i]
    assert dim is not None
    return dim[1]


def result_dim(dims: Dims, axis: int) -> int:
    return next(i for i, dim in enumerate(dims) if dim is not None and dim[0] == axis)


# The rewrites -------------------------------------------------------------------------------------------------------------


def as_it_is(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    return hand.call(hand.case, hand.tensors)


def in_place(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """The result is written over the first operand."""
    if hand.case.operator == SOFTMAX:
        return [hand.ttnn.softmax_in_place(hand.tensors[0], dim=hand.attrs["dim"])]
    return hand.call(hand.case, hand.tensors, output_tensor=hand.tensors[0])


def _axes(hand: RewriteBackend) -> Axes:
    axes = axes_of(hand.bound)
    assert axes is not None
    return axes


def pieces(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """Along ``axis``, ``count`` pieces: each is cut out, called in ``memory``, put into DRAM; all are joined there."""
    axes = _axes(hand)
    dram = hand.in_memory(BufferType.DRAM)
    made = _pieces(hand, axes, params)
    return [
        hand.ttnn.concat(list(parts), dim=result_dim(dims, params["axis"]), memory_config=dram)
        for parts, dims in zip(zip(*made, strict=True), axes.results, strict=True)
    ]


def pieces_apart(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """The same, not joined."""
    return [result for results in _pieces(hand, _axes(hand), params) for result in results]


def one_piece(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """The first piece alone."""
    axes, axis = _axes(hand), params["axis"]
    begin, end = cuts(axes.units[axis], params["count"], params.get("multiple", 1))[0]
    return _piece(hand, axes, axis, begin, end, BufferType(params["memory"]))


def _pieces(hand: RewriteBackend, axes: Axes, params: Params) -> list[list[Any]]:
    """The results of each piece, in DRAM."""
    axis, memory, made = params["axis"], BufferType(params["memory"]), []
    for number, (begin, end) in enumerate(cuts(axes.units[axis], params["count"], params.get("multiple", 1))):
        with hand.piece(number):
            made.append(_piece(hand, axes, axis, begin, end, memory))
    return made


def _piece(hand: RewriteBackend, axes: Axes, axis: int, begin: int, end: int, memory: BufferType) -> list[Any]:
    """One stretch's results, in DRAM."""
    case = piece_case(hand.case, axes, axis, end - begin, memory)
    parts = [cut_out(hand, x, dims, axis, begin, end, memory) for x, dims in zip(hand.tensors, axes.placed, strict=True)]
    results = hand.call(case, parts)
    cut = [part for part, whole in zip(parts, hand.tensors, strict=True) if part is not whole]
    hand.free(*(part for part in cut if not any(hand.shares(part, result) for result in results)))
    return [in_dram(hand, result) for result in results]


def in_dram(hand: RewriteBackend, tensor: Any) -> Any:
    """``tensor`` moved to DRAM, where it is not there already."""
    if hand.is_in(tensor, BufferType.DRAM):
        return tensor
    moved = hand.ttnn.to_memory_config(tensor, memory_config=hand.in_memory(BufferType.DRAM))
    hand.free(tensor)
    return moved


def piece_case(case: Case, axes: Axes, axis: int, units: int, memory: BufferType) -> Case:
    piece = axes.case_of(case, {axis: units})
    return replace(piece, placement=replace(piece.placement, memory=memory))


def spilled(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """The call, then what went to DRAM before it returns to L1 with ``back``."""
    results = hand.call(hand.case, hand.tensors)
    if params["back"]:
        away, l1 = list(hand.residents), hand.in_memory(BufferType.L1)
        hand.residents[:] = [hand.ttnn.to_memory_config(x, memory_config=l1) for x in away]
        hand.free(*away)
    return results


# Before the operands are placed -------------------------------------------------------------------------------------------


def spill(hand: RewriteBackend) -> None:
    """What lives goes to DRAM."""
    dram, before = hand.in_memory(BufferType.DRAM), list(hand.residents)
    hand.residents[:] = [hand.ttnn.to_memory_config(x, memory_config=dram) for x in before]
    hand.free(*before)


def reallocate(hand: RewriteBackend) -> None:
    """What lives is moved together, so that its holes become one."""
    hand.residents[:] = [hand.ttnn.reallocate(x) for x in hand.residents]


PREPARATIONS: Mapping[RewriteName, Callable[[RewriteBackend], None]] = {
    RewriteName.SPILLED: spill,
    RewriteName.REALLOCATED: reallocate,
}
BASIC_REWRITES: Mapping[RewriteName, Rewrite] = {
    RewriteName.CALL: as_it_is,
    RewriteName.IN_PLACE: in_place,
    RewriteName.PIECES: pieces,
    RewriteName.ONE_PIECE: one_piece,
    RewriteName.SPILLED: spilled,
    RewriteName.REALLOCATED: as_it_is,
}
