"""Shape operators that repeat a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ssinghal.core.tensors import Layout, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import Specs, is_unchanged, is_view
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, ResizableCall, Sizes, along
from ssinghal.operators.dims import OTHER_DIMS, cut_equal_dims, trailing, units
from ssinghal.operators.operator_info import Attr, Attrs, Call, Limitation, OperatorInfo, Sample, Traits, normal_dim
from ssinghal.operators.pieces import resized


def _expand_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    shape, size = shapes[0], tuple(attrs["size"])
    new = len(size) - len(shape)
    aligned = (0,) * new + shape  # 0: a new dim, whose size must be given
    if new < 0 or not all(_expands(*pair) for pair in zip(aligned, size, strict=True)):
        raise InvalidCase(f"shape {list(shape)} does not expand to {list(size)}")
    return [tuple(have if want == -1 else want for have, want in zip(aligned, size, strict=True))]


def _expand(c: Call) -> Any:
    """Passes every size as a number: up to 0.75 TTNN takes -1 for 2**32 - 1 where the call adds a dim."""
    ((*size,),) = _expand_shape([tuple(c.inputs[0].shape)], c.attrs)
    return c.ttnn.expand(c.inputs[0], size, **c.out)


def _expands(have: int, want: int) -> bool:
    return want >= 1 if have == 0 else want in (-1, have) or (have == 1 and want > 1)


def _cut_expanded(call: CuttableCall) -> Axes | None:
    """Existing dims are cut in both; new ones and those of size 1 only in the result, whose size is then smaller."""
    shape, out = call.inputs[0], call.results[0]

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        return {**attrs, "size": [sizes.get(d, size) for d, size in enumerate(out)]}

    return call.axes([along(len(out))], units(out), written=[trailing(shape, out)], attrs_for=attrs_for)


def _resize_expanded(call: ResizableCall, sizes: Sizes) -> Attrs:
    size = list(call.attrs["size"])
    for dim, to in sizes.items():
        place = call.placed[dim] + len(size) - len(call.subject)
        if size[place] not in (-1, call.subject[dim]):
            raise call.no(dim, f"it is expanded to {size[place]}")
        size[place] = to if size[place] != -1 else -1
    return {**call.attrs, "size": size}


def _twice(shape: Shape) -> Sample:
    """Builds the sweep's call: two copies along the leading dim, or along a new one where that is not 1."""
    return Sample((shape,), {"size": [2, *[-1] * (len(shape) - 1 if shape[0] == 1 else len(shape))]})


def _repeat_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    repeats = tuple(attrs["repeats"])
    aligned = (1,) * (len(repeats) - len(shapes[0])) + shapes[0]
    if len(repeats) < len(shapes[0]) or min(repeats, default=0) < 1:
        raise InvalidCase(f"repeats {list(repeats)} do not suit shape {list(shapes[0])}")
    return [tuple(size * times for size, times in zip(aligned, repeats, strict=True))]


def _interleave_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if attrs["repeats"] < 1:
        raise InvalidCase(f"repeats {attrs['repeats']} is not positive")
    if attrs["dim"] is None:
        return [(math.prod(shapes[0]) * attrs["repeats"],)]
    dim = normal_dim(attrs["dim"], len(shapes[0]))
    return [resized(shapes[0], dim, shapes[0][dim] * attrs["repeats"])]


def _interleaved_tiles(inputs: Specs, outputs: Specs) -> int:
    """An upper bound: TTNN reshapes the repeated tensor for some dims only."""
    return 0 if inputs[0].layout is Layout.ROW_MAJOR or is_unchanged(inputs, outputs) else outputs[0].num_pages


REPEAT_TRAITS = Traits(alias=is_view, temporaries=True)
REPEATS = (
    OperatorInfo(
        names=("expand",),
        aten=("aten.expand.default",),
        operands=("self",),
        ttnn="ttnn.expand",
        call=_expand,
        torch=lambda t, x, a: x[0].expand(a["size"]),
        infer=_expand_shape,
        attrs={"size": Attr("ints"), "implicit": Attr("bool|none", None)},
        sample=_twice,
        dims=DimRule(resize=_resize_expanded, cut=_cut_expanded),
        traits=REPEAT_TRAITS,
    ),
    OperatorInfo(
        names=("repeat",),
        aten=("aten.repeat.default",),
        operands=("self",),
        ttnn="ttnn.repeat",
        call=lambda c: c.ttnn.repeat(c.inputs[0], list(c.attrs["repeats"]), **c.out),
        torch=lambda t, x, a: x[0].repeat(*a["repeats"]),
        infer=_repeat_shape,
        attrs={"repeats": Attr("ints")},
        sample=lambda shape: Sample((shape,), {"repeats": [2, *[1] * (len(shape) - 1)]}),
        dims=DimRule(cut=cut_equal_dims),
        traits=REPEAT_TRAITS,
    ),
    OperatorInfo(
        names=("repeat_interleave",),
        aten=("aten.repeat_interleave.self_int",),
        operands=("self",),
        ttnn="ttnn.repeat_interleave",
        call=lambda c: c.ttnn.repeat_interleave(c.inputs[0], c.attrs["repeats"], c.attrs["dim"], **c.out),
        torch=lambda t, x, a: t.repeat_interleave(x[0], a["repeats"], a["dim"]),
        infer=_interleave_shape,
        attrs={"repeats": Attr("int"), "dim": Attr("int|none", None), "output_size": Attr("int|none", None)},
        sample=lambda shape: Sample((shape,), {"repeats": 2, "dim": 0}),
        dims=OTHER_DIMS,
        traits=Traits(alias=is_unchanged, temporaries=True, host_map=_interleaved_tiles),
        limitations=(Limitation("ttnn.repeat_interleave needs a dim", when=lambda shapes, attrs: attrs["dim"] is None),),
    ),
)
