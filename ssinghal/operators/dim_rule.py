"""Which dims of a call's operands and results correspond: what an operator declares so that its calls can be cut and resized.

An axis is a number; a dim that has it is ``(axis, step)``: it grows by ``step`` for each unit of the axis. A softmax over the
last dim of [8, 64, 128] has axes of 8 and 64 units, and its last dim has none that may be cut. A view of [6, 32, 10] as
[4, 480] has one axis of gcd(6, 4) = 2 units: 3 rows of the operand make 2 of the result. Imports neither torch nor ttnn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase

Dim = tuple[int, int] | None
Dims = tuple[Dim, ...]
Attrs = Mapping[str, Any]
Sizes = Mapping[int, int]


def along(rank: int) -> Dims:
    """Returns one axis for each dim."""
    return tuple((d, 1) for d in range(rank))


def first_operand(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """The others are weights and the like."""
    return [along(len(inputs[0])), *((None,) * len(shape) for shape in inputs[1:])]


def _unchanged(attrs: Attrs, units: Sizes) -> Attrs:
    return attrs


@dataclass(frozen=True)
class Axes:
    """The axes along which one call can be made piece by piece."""

    # sizes of the axes, all above 1
    units: Sizes
    # dims of the case's inputs, in the order that its operator uses
    written: tuple[Dims, ...]
    # dims of the operands on the device; none for an operand that is not cut
    placed: tuple[Dims, ...]
    # dims of the results on the device
    results: tuple[Dims, ...]
    # the call's attributes where axes have other sizes
    attrs_for: Callable[[Attrs, Sizes], Attrs] = _unchanged

    def case_of(self, case: Case, units: Sizes) -> Case:
        """Returns ``case`` with other sizes of its axes."""
        sizes = {**self.units, **units}
        inputs = tuple(
            tuple(n if dim is None or dim[0] not in units else dim[1] * sizes[dim[0]] for n, dim in zip(s, dims, strict=True))
            for s, dims in zip(case.inputs, self.written, strict=True)
        )
        return replace(case, inputs=inputs, attrs=self.attrs_for(case.attrs, sizes))


@dataclass(frozen=True)
class CuttableCall:
    """A call that is to be cut: shapes as placed, attributes completed, and the dims that its operands have in common.

    ``device``: shapes of the operands on the device. ``channels_last``: an input of rank 4 of an operator that takes maps is
    written [N, H, W, C].
    """

    inputs: Sequence[Shape]
    results: Sequence[Shape]
    attrs: Attrs
    ties: Sequence[Dims]
    device: Sequence[Shape] = ()
    channels_last: bool = False

    @property
    def map(self) -> Shape:
        """The first operand as [N, C, ...]."""
        shape = self.inputs[0]
        return (shape[0], shape[3], *shape[1:3]) if self.channels_last else shape

    def of_map(self, batch: Dim, channels: Dim, *spatial: Dim) -> Dims:
        """Returns the dims of the first operand in the order in which it is written."""
        spatial = (*spatial, *(None,) * (len(self.inputs[0]) - 2 - len(spatial)))
        return (batch, *spatial, channels) if self.channels_last else (batch, channels, *spatial)

    def axes(
        self,
        results: Sequence[Dims],
        units: Sizes,
        *,
        written: Sequence[Dims] | None = None,
        placed: Sequence[Dims] | None = None,
        attrs_for: Callable[[Attrs, Sizes], Attrs] = _unchanged,
    ) -> Axes | None:
        """Returns the axes that have ``units``, or None without one of at least two. ``written``: else the operands' ties."""
        units = {axis: n for axis, n in units.items() if n > 1}
        if not units:
            return None

        def known(several: Iterable[Dims]) -> tuple[Dims, ...]:
            return tuple(tuple(d if d is not None and d[0] in units else None for d in dims) for dims in several)

        written = self.ties if written is None else written
        return Axes(units, known(written), known(written if placed is None else placed), known(results), attrs_for)


@dataclass(frozen=True)
class ResizableCall:
    """A call before it is resized."""

    case: Case
    subject: Shape
    # the number under which attributes know each dim of the subject: those of maps refer to the order as placed
    placed: Sequence[int]

    @property
    def attrs(self) -> Attrs:
        return self.case.attrs

    def no(self, dim: int, why: str) -> InvalidCase:
        return InvalidCase(f"{self.case.name}: dim {dim} cannot grow, {why}")


@dataclass(frozen=True)
class DimRule:
    """Which dims go together in the calls of an operator. By default the first operand is resized, and nothing follows."""

    # the axis of each dim of the operands: dims of one axis have one size
    ties: Callable[[Sequence[Shape]], Sequence[Dims]] = first_operand
    # the operand whose dims are resized; None: the result's, whose dims are the axes
    subject: int | None = 0
    # the attributes where dims of the subject have other sizes; None: no attribute holds a size
    resize: Callable[[ResizableCall, Sizes], Attrs] | None = None
    # the axes along which a call can be cut; None: not known
    cut: Callable[[CuttableCall], Axes | None] | None = None
