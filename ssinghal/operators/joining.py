"""Shape operators that join tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.core.tensors import BufferType, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import is_unchanged, is_view
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, along
from ssinghal.operators.dims import cut_with_new_dim, equal_operands, units
from ssinghal.operators.operator_info import Attr, Attrs, OperatorInfo, Sample, Traits, normal_dim
from ssinghal.operators.pieces import bfloat16_where, cuts_tiles, no_bfloat4_where, resized, tiles_with_other_matrix
from ssinghal.operators.resizing import not_along


def _cat_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    if len({resized(s, dim, 1) for s in shapes}) > 1:
        raise InvalidCase(f"shapes {' and '.join(str(list(s)) for s in shapes)} differ in more than dim {dim}")
    return [resized(shapes[0], dim, sum(s[dim] for s in shapes))]


def _stack_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim = normal_dim(attrs["dim"], len(shapes[0]) + 1)
    if len(set(shapes)) > 1:
        raise InvalidCase(f"stack takes equal shapes, not {' and '.join(str(list(s)) for s in shapes)}")
    return [(*shapes[0][:dim], len(shapes), *shapes[0][dim:])]


def _cat_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    return len(shapes) > 1 and cuts_tiles(shapes[0], dim, (s[dim] for s in shapes))


def _stack_cuts_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return normal_dim(attrs["dim"], len(shapes[0]) + 1) >= len(shapes[0]) - 1


def _cut_concatenated(call: CuttableCall) -> Axes | None:
    shape = call.inputs[0]
    return call.axes([along(len(shape))], units(shape, [normal_dim(call.attrs["dim"], len(shape))]))


JOINS = (
    OperatorInfo(
        names=("cat", "concat", "Concat"),
        aten=("aten.cat.default", "aten.concat.default", "aten.concatenate.default"),
        operands=("tensors*",),
        ttnn="ttnn.concat",
        call=lambda c: c.ttnn.concat(c.inputs, dim=c.attrs["dim"], **c.out),
        torch=lambda t, x, a: t.cat(list(x), a["dim"]),
        infer=_cat_shape,
        attrs={"dim": Attr("int", 0)},
        sample=lambda shape: Sample((shape, shape), {"dim": 0}),
        dims=DimRule(equal_operands, resize=not_along("operands differ along it"), cut=_cut_concatenated),
        traits=Traits(
            alias=is_unchanged,
            temporaries=True,
            ttnn_output=BufferType.DRAM,
            output_dtypes=bfloat16_where(_cat_cuts_tiles, _cat_shape),
        ),
        limitations=(no_bfloat4_where(_cat_cuts_tiles),),
    ),
    OperatorInfo(
        names=("stack",),
        aten=("aten.stack.default",),
        operands=("tensors*",),
        ttnn="ttnn.stack",
        call=lambda c: c.ttnn.stack(c.inputs, dim=c.attrs["dim"]),
        torch=lambda t, x, a: t.stack(list(x), a["dim"]),
        infer=_stack_shape,
        attrs={"dim": Attr("int", 0)},
        sample=lambda shape: Sample((shape, shape), {"dim": 0}),
        dims=DimRule(equal_operands, cut=cut_with_new_dim),
        traits=Traits(
            alias=lambda inputs, outputs: len(inputs) == 1 and is_view(inputs, outputs),
            temporaries=True,
            ttnn_output=BufferType.DRAM,
            output_fixed=True,
            host_map=tiles_with_other_matrix,
            output_dtypes=bfloat16_where(_stack_cuts_tiles, _stack_shape),
        ),
        limitations=(no_bfloat4_where(_stack_cuts_tiles),),
    ),
)
