"""Rewrites of a call: in place, in pieces, or with other buffers moved away.

A rewrite is written once, for a ``RewriteBackend``. On a device the backend's ``ttnn`` is TTNN itself, with a transcript; in
``ssinghal.remedy.equivalence`` it is torch, which shows whether the values stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import BufferType, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators import named
from ssinghal.operators.binding import BoundCall
from ssinghal.operators.dim_rule import Axes, Dims
from ssinghal.operators.dims import axes_of
from ssinghal.remedy.placements import interleaved
from ssinghal.remedy.trial import RewriteName

(SOFTMAX,) = named("softmax")
Params = Mapping[str, Any]
Rewrite = Callable[["RewriteBackend", Params], Sequence[Any]]


class RewriteBackend(ABC):
    """What a rewrite works with: the placed operands of ``case``, the other buffers, and the means to call."""

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
        """Calls the operator of ``case`` on ``tensors``. ``out``: where the results go; by default the case's placement."""

    @abstractmethod
    def in_memory(self, buffer: BufferType) -> Any:
        """Returns TTNN's memory config for interleaved tensors in ``buffer``."""

    @abstractmethod
    def piece(self, number: int) -> AbstractContextManager[None]:
        """Surrounds the calls of one piece of many."""

    @abstractmethod
    def is_in(self, tensor: Any, buffer: BufferType) -> bool:
        """Whether the tensor is in ``buffer`` now."""

    @abstractmethod
    def shares(self, a: Any, b: Any) -> bool:
        """Whether both tensors have the same buffer, so that freeing one frees the other."""

    def free(self, *tensors: Any) -> None:
        for tensor in tensors:
            self.ttnn.deallocate(tensor)


def cuts(units: int, count: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Returns at most ``count`` stretches of 0..units, all but the last of equal size, a multiple of ``multiple``.

    >>> cuts(100, 3, 32)
    [(0, 64), (64, 100)]
    """
    size = ceil_div(ceil_div(units, count), multiple) * multiple
    return [(start, min(start + size, units)) for start in range(0, units, size)]


def cut_out(backend: RewriteBackend, tensor: Any, dims: Dims, axis: int, begin: int, end: int, buffer: BufferType) -> Any:
    """Returns the part of ``tensor`` for a stretch of the axis; the tensor itself where it has no dim of that axis."""
    units = {i: dim[1] for i, dim in enumerate(dims) if dim is not None and dim[0] == axis}
    if not units:
        return tensor
    shape = tuple(tensor.shape)
    starts, ends = [0] * len(shape), list(shape)
    for i, unit in units.items():
        starts[i], ends[i] = begin * unit, end * unit
    return backend.ttnn.slice(tensor, starts, ends, memory_config=backend.in_memory(buffer))


def result_dim(dims: Dims, axis: int) -> int:
    return next(i for i, dim in enumerate(dims) if dim is not None and dim[0] == axis)


# The rewrites -------------------------------------------------------------------------------------------------------------


def as_it_is(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    return backend.call(backend.case, backend.tensors)


def in_place(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Writes the result over the first operand."""
    if backend.case.operator == SOFTMAX:
        return [backend.ttnn.softmax_in_place(backend.tensors[0], dim=backend.attrs["dim"])]
    return backend.call(backend.case, backend.tensors, output_tensor=backend.tensors[0])


def _axes(backend: RewriteBackend) -> Axes:
    axes = axes_of(backend.bound)
    if axes is None:
        raise InvalidCase(f"{backend.case.operator} cannot be cut into pieces")
    return axes


def pieces(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Cuts ``count`` pieces along ``axis``, calls each in ``memory``, moves the results to DRAM and joins them there."""
    axes = _axes(backend)
    dram = backend.in_memory(BufferType.DRAM)
    results = _pieces(backend, axes, params)
    return [
        backend.ttnn.concat(list(parts), dim=result_dim(dims, params["axis"]), memory_config=dram)
        for parts, dims in zip(zip(*results, strict=True), axes.results, strict=True)
    ]


def pieces_apart(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Does the same without the join."""
    return [result for results in _pieces(backend, _axes(backend), params) for result in results]


def one_piece(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Runs the first piece only."""
    axes, axis = _axes(backend), params["axis"]
    begin, end = cuts(axes.units[axis], params["count"], params.get("multiple", 1))[0]
    return _piece(backend, axes, axis, begin, end, BufferType(params["memory"]))


def _pieces(backend: RewriteBackend, axes: Axes, params: Params) -> list[list[Any]]:
    """Returns the results of each piece, in DRAM."""
    axis, memory, results = params["axis"], BufferType(params["memory"]), []
    for number, (begin, end) in enumerate(cuts(axes.units[axis], params["count"], params.get("multiple", 1))):
        with backend.piece(number):
            results.append(_piece(backend, axes, axis, begin, end, memory))
    return results


def _piece(backend: RewriteBackend, axes: Axes, axis: int, begin: int, end: int, memory: BufferType) -> list[Any]:
    """Returns the results of one stretch, in DRAM."""
    case = piece_case(backend.case, axes, axis, end - begin, memory)
    parts = [cut_out(backend, x, dims, axis, begin, end, memory) for x, dims in zip(backend.tensors, axes.placed, strict=True)]
    results = backend.call(case, parts)
    cut = [part for part, operand in zip(parts, backend.tensors, strict=True) if part is not operand]
    backend.free(*(part for part in cut if not any(backend.shares(part, result) for result in results)))
    return [in_dram(backend, result) for result in results]


def in_dram(backend: RewriteBackend, tensor: Any) -> Any:
    """Moves ``tensor`` to DRAM, unless it is there."""
    if backend.is_in(tensor, BufferType.DRAM):
        return tensor
    moved = backend.ttnn.to_memory_config(tensor, memory_config=backend.in_memory(BufferType.DRAM))
    backend.free(tensor)
    return moved


def piece_case(case: Case, axes: Axes, axis: int, units: int, memory: BufferType) -> Case:
    piece = axes.case_of(case, {axis: units})
    return replace(piece, placement=interleaved(piece.placement, memory))


def spilled(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Makes the call; with ``back``, then returns the other buffers to L1."""
    results = backend.call(backend.case, backend.tensors)
    if params["back"]:
        away, l1 = list(backend.residents), backend.in_memory(BufferType.L1)
        backend.residents[:] = [backend.ttnn.to_memory_config(x, memory_config=l1) for x in away]
        backend.free(*away)
    return results


# Before the operands are placed -------------------------------------------------------------------------------------------


def spill(backend: RewriteBackend) -> None:
    """Moves the other buffers to DRAM."""
    dram, before = backend.in_memory(BufferType.DRAM), list(backend.residents)
    backend.residents[:] = [backend.ttnn.to_memory_config(x, memory_config=dram) for x in before]
    backend.free(*before)


def reallocate(backend: RewriteBackend) -> None:
    """Moves the other buffers together, so that the free memory is contiguous."""
    backend.residents[:] = [backend.ttnn.reallocate(x) for x in backend.residents]


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
