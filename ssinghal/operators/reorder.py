"""Shape operators that are views in torch and change the order of the dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ssinghal.core.tensors import Layout, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, along
from ssinghal.operators.dims import units
from ssinghal.operators.operator_info import Attr, Attrs, Limitation, OperatorInfo, Sample, Traits, normal_dim


def _permute_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """TTNN silently accepts a dim given twice, so the check is here."""
    shape = shapes[0]
    order = [normal_dim(d, len(shape)) for d in attrs["dims"]]
    if sorted(order) != list(range(len(shape))):
        raise InvalidCase(f"dims {list(attrs['dims'])} are not an order of the {len(shape)} dims of {list(shape)}")
    return [tuple(shape[d] for d in order)]


def _moved_order(rank: int, attrs: Attrs) -> list[int]:
    """Returns ``movedim`` as an order of dims."""
    source, target = (
        [normal_dim(d, rank) for d in ([dims] if isinstance(dims, int) else dims)]
        for dims in (attrs["source"], attrs["destination"])
    )
    if len(source) != len(target) or len(set(source)) != len(source) or len(set(target)) != len(target):
        raise InvalidCase(f"movedim: source {attrs['source']} and destination {attrs['destination']} do not pair up")
    came_from = dict(zip(target, source, strict=True))
    others = iter(d for d in range(rank) if d not in source)
    return [came_from[d] if d in came_from else next(others) for d in range(rank)]


def _swapped(rank: int, attrs: Attrs) -> list[int]:
    """Returns ``transpose`` as an order of dims."""
    order = list(range(rank))
    first, second = normal_dim(attrs["dim0"], rank), normal_dim(attrs["dim1"], rank)
    order[first], order[second] = second, first
    return order


def _transpose_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return [tuple(shapes[0][d] for d in _swapped(len(shapes[0]), attrs))]


def _t_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if len(shapes[0]) != 2:
        raise InvalidCase(f"t takes a matrix, not shape {list(shapes[0])}")
    return [shapes[0][::-1]]


def _last_dim_second(shape: Shape) -> Sample:
    """Builds the sweep's call: (0, 3, 1, 2) for maps, which takes them back to NCHW, and likewise for other ranks."""
    rank = len(shape)
    dims = [0, rank - 1, *range(1, rank - 1)] if rank > 2 else [*range(rank)][::-1]
    return Sample((shape,), {"dims": dims})


# Block floats are permuted as bfloat16. The specs do not show that a call which moves nothing returns its operand.
REORDER = Traits(temporaries=True)


def _reordered(order_of: Callable[[int, Attrs], Sequence[int]]) -> DimRule:
    """Returns the rule of calls whose result has all dims in another order."""

    def cut(call: CuttableCall) -> Axes | None:
        dims = along(len(call.inputs[0]))
        return call.axes([tuple(dims[d] for d in order_of(len(dims), call.attrs))], units(call.inputs[0]))

    return DimRule(cut=cut)


REORDERS = (
    OperatorInfo(
        names=("permute",),
        aten=("aten.permute.default",),
        operands=("self",),
        ttnn="ttnn.permute",
        call=lambda c: c.ttnn.permute(c.inputs[0], list(c.attrs["dims"]), **c.out),
        torch=lambda t, x, a: t.permute(x[0], a["dims"]),
        infer=_permute_shape,
        attrs={"dims": Attr("ints")},
        sample=_last_dim_second,
        dims=_reordered(lambda rank, attrs: [normal_dim(d, rank) for d in attrs["dims"]]),
        traits=REORDER,
    ),
    OperatorInfo(
        names=("movedim", "moveaxis"),
        aten=("aten.movedim.int", "aten.movedim.intlist"),
        operands=("self",),
        ttnn="ttnn.permute",
        call=lambda c: c.ttnn.permute(c.inputs[0], _moved_order(len(c.inputs[0].shape), c.attrs), **c.out),
        torch=lambda t, x, a: t.movedim(x[0], a["source"], a["destination"]),
        infer=lambda shapes, attrs: [tuple(shapes[0][d] for d in _moved_order(len(shapes[0]), attrs))],
        attrs={"source": Attr("int|ints"), "destination": Attr("int|ints")},
        sample=lambda shape: Sample((shape,), {"source": -1, "destination": 0}),
        dims=DimRule(),
        traits=REORDER,
    ),
    OperatorInfo(
        names=("transpose",),
        aten=("aten.transpose.int",),
        operands=("self",),
        ttnn="ttnn.transpose",
        call=lambda c: c.ttnn.transpose(c.inputs[0], c.attrs["dim0"], c.attrs["dim1"], **c.out),
        torch=lambda t, x, a: t.transpose(x[0], a["dim0"], a["dim1"]),
        infer=_transpose_shape,
        attrs={"dim0": Attr("int"), "dim1": Attr("int")},
        sample=lambda shape: Sample((shape,), {"dim0": -2, "dim1": -1}),
        dims=_reordered(_swapped),
        traits=REORDER,
        limitations=(
            Limitation(
                "ttnn.transpose rejects rank 1 in tile layout", (Layout.TILE,), when=lambda shapes, a: len(shapes[0]) == 1
            ),
        ),
    ),
    OperatorInfo(
        names=("t",),
        aten=("aten.t.default",),
        operands=("self",),
        ttnn="ttnn.transpose",
        call=lambda c: c.ttnn.transpose(c.inputs[0], 0, 1, **c.out),
        torch=lambda t, x, a: t.t(x[0]),
        infer=_t_shape,
        sample=lambda shape: Sample(((math.prod(shape[:-1]), shape[-1]),), {}, channels_last=False),
        dims=_reordered(lambda rank, attrs: range(rank)[::-1]),
        traits=REORDER,
    ),
)
