"""Shape operators that are views in torch and keep the order of the elements: another shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import is_view, mapped_tiles
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, ResizableCall, Sizes, along
from ssinghal.operators.dims import cut_with_new_dim, units
from ssinghal.operators.operator_info import (
    Attr,
    Attrs,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    normal_dim,
    normal_dims,
    to_nhwc,
)
from ssinghal.operators.resizing import scaled

RESHAPE = Traits(alias=is_view, temporaries=True, host_map=mapped_tiles)
RESHAPE_WHERE_IT_IS = Traits(alias=is_view, temporaries=True, host_map=mapped_tiles, output_fixed=True)


def _view_size(attrs: Attrs) -> list[int]:
    """Reads the attribute that ``view`` calls size and ``reshape`` shape."""
    sizes = [list(attrs[name]) for name in ("size", "shape") if attrs[name] is not None]
    if len(sizes) != 1:
        raise InvalidCase("view takes size (or shape, as reshape calls it), one of them")
    return sizes[0]


def _view_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    size, volume = _view_size(attrs), math.prod(shapes[0])
    known = math.prod(s for s in size if s != -1)
    if size.count(-1) > 1 or known < 1 or volume % known or (-1 not in size and volume != known):
        raise InvalidCase(f"a tensor of shape {list(shapes[0])} cannot be viewed as {size}")
    return [tuple(volume // known if s == -1 else s for s in size)]


def _flattened(shape: Shape, attrs: Attrs) -> Shape:
    """Merges the dims from start_dim to end_dim."""
    start, end = normal_dim(attrs["start_dim"], len(shape)), normal_dim(attrs["end_dim"], len(shape))
    if start > end:
        raise InvalidCase(f"flatten: start_dim {attrs['start_dim']} comes after end_dim {attrs['end_dim']} in {list(shape)}")
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def _unflattened(shape: Shape, attrs: Attrs) -> Shape:
    """Splits one dim into several, of which one may be -1."""
    dim = normal_dim(attrs["dim"], len(shape))
    (sizes,) = _view_shape([shape[dim : dim + 1]], {"size": attrs["sizes"], "shape": None})
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


def _reshaping(
    name: str, overload: str, shape_of: Callable[[Shape, Attrs], Shape], attrs: dict[str, Attr], sample: dict[str, Any]
) -> OperatorInfo:
    """Declares a view whose shape ``shape_of`` returns."""
    return OperatorInfo(
        names=(name,),
        aten=(overload,),
        operands=("self",),
        ttnn="ttnn.reshape",
        call=lambda c: c.ttnn.reshape(c.inputs[0], shape_of(tuple(c.inputs[0].shape), c.attrs), **c.out),
        torch=lambda t, x, a: t.reshape(x[0], shape_of(tuple(x[0].shape), a)),
        infer=lambda shapes, attrs: [shape_of(shapes[0], attrs)],
        attrs=attrs,
        sample=lambda shape: Sample((shape,), sample),
        dims=DimRule(cut=_cut_outermost),
        traits=RESHAPE,
    )


def _squeezed_dims(shape: Sequence[int], attrs: Attrs) -> list[int]:
    """Never returns all dims: a scalar stays [1], since rank 0 is no valid shape here."""
    dims = [d for d in normal_dims(attrs["dim"], len(shape)) if shape[d] == 1]
    return dims[1:] if len(dims) == len(shape) else dims


def _squeeze_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    gone = _squeezed_dims(shapes[0], attrs)
    return [tuple(s for d, s in enumerate(shapes[0]) if d not in gone)]


def _unsqueeze_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    dim = normal_dim(attrs["dim"], len(shapes[0]) + 1)
    return [(*shapes[0][:dim], 1, *shapes[0][dim:])]


def _first(shape: Shape) -> int:
    """Returns the outermost dim that has more than one element: a cut along it leaves contiguous stretches of memory."""
    return next((d for d, size in enumerate(shape) if size > 1), 0)


def _cut_outermost(call: CuttableCall) -> Axes | None:
    """A stretch of the operand's elements is one of the result's, where both outermost dims are cut in equal shares."""
    shape, out = call.inputs[0], call.results[0]
    i, j = _first(shape), _first(out)
    stretches = math.gcd(shape[i], out[j])
    operand: Dims = tuple((0, shape[i] // stretches) if d == i else None for d in range(len(shape)))
    result: Dims = tuple((0, out[j] // stretches) if d == j else None for d in range(len(out)))

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        name = "size" if attrs.get("size") is not None else "shape"
        if attrs.get(name) is None:
            return attrs
        return {**attrs, name: [size if d != j else out[j] // stretches * sizes[0] for d, size in enumerate(out)]}

    return call.axes([result], {0: stretches}, written=[operand], attrs_for=attrs_for)


def _resize_view(call: ResizableCall, sizes: Sizes) -> Attrs:
    """The outermost size follows the outermost dim; -1 follows by itself."""
    name = "size" if call.attrs.get("size") is not None else "shape"
    size = list(call.attrs[name])
    for dim, to in sizes.items():
        if dim == 0 and size[0] != -1:
            size[0] = scaled(call, 0, size[0], to)
        elif dim and -1 not in size:
            raise call.no(dim, f"the {name} {size} that it asks for does not follow")
    return {**call.attrs, name: size}


def _cut_unsqueezed(call: CuttableCall) -> Axes | None:
    """Dims that the call does not name can be cut: a piece of one element would lose the others."""
    shape = call.inputs[0]
    named = normal_dims(call.attrs["dim"], len(shape))
    kept = tuple(dim for d, dim in enumerate(along(len(shape))) if d not in named or shape[d] > 1)
    return call.axes([kept], units(shape, named)) if len(kept) == len(call.results[0]) else None


def _resize_squeezed(call: ResizableCall, sizes: Sizes) -> Attrs:
    gone = normal_dims(call.attrs.get("dim"), len(call.subject))
    for dim in sizes:
        if call.subject[dim] == 1 and call.placed[dim] in gone:
            raise call.no(dim, "it is squeezed away")
    return call.attrs


RESHAPES = (
    OperatorInfo(
        names=("view", "_unsafe_view", "unsafe_view", "unsafeview", "reshape"),
        aten=("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten._reshape_alias.default"),
        operands=("self",),
        ttnn="ttnn.reshape",
        call=lambda c: c.ttnn.reshape(c.inputs[0], _view_size(c.attrs), **c.out),
        torch=lambda t, x, a: t.reshape(x[0], _view_size(a)),
        infer=_view_shape,
        attrs={"size": Attr("ints|none", None), "shape": Attr("ints|none", None), "stride": Attr("ints|none", None)},
        sample=lambda shape: Sample((to_nhwc(shape),), {"size": list(shape)}, channels_last=False),
        dims=DimRule(resize=_resize_view, cut=_cut_outermost),
        traits=RESHAPE,
    ),
    _reshaping(
        "flatten",
        "aten.flatten.using_ints",
        _flattened,
        {"start_dim": Attr("int", 0), "end_dim": Attr("int", -1)},
        {"end_dim": 0},
    ),
    _reshaping(
        "unflatten",
        "aten.unflatten.int",
        _unflattened,
        {"dim": Attr("int"), "sizes": Attr("ints")},
        {"dim": 0, "sizes": [1, -1]},
    ),
    OperatorInfo(
        names=("unsqueeze",),
        aten=("aten.unsqueeze.default",),
        operands=("self",),
        ttnn="ttnn.unsqueeze",
        call=lambda c: c.ttnn.unsqueeze(c.inputs[0], c.attrs["dim"]),
        torch=lambda t, x, a: t.unsqueeze(x[0], a["dim"]),
        infer=_unsqueeze_shape,
        attrs={"dim": Attr("int")},
        sample=lambda shape: Sample((shape,), {"dim": 0}),
        dims=DimRule(cut=cut_with_new_dim),
        traits=RESHAPE_WHERE_IT_IS,
    ),
    OperatorInfo(
        names=("squeeze",),
        aten=("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"),
        operands=("self",),
        ttnn="ttnn.squeeze",
        call=lambda c: c.ttnn.squeeze(c.inputs[0], _squeezed_dims(tuple(c.inputs[0].shape), c.attrs)),
        torch=lambda t, x, a: t.squeeze(x[0], _squeezed_dims(x[0].shape, a)),
        infer=_squeeze_shape,
        attrs={"dim": Attr("int|ints|none", None)},
        sample=lambda shape: Sample((shape,), {"dim": 0}),
        dims=DimRule(resize=_resize_squeezed, cut=_cut_unsqueezed),
        traits=RESHAPE_WHERE_IT_IS,
    ),
)


def _contiguous_strides(shape: Shape) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


AS_STRIDED = OperatorInfo(
    names=("as_strided", "asstrided"),
    aten=("aten.as_strided.default",),
    operands=("self",),
    ttnn="",
    call=None,
    torch=lambda t, x, a: t.as_strided(x[0], a["size"], a["stride"], a["storage_offset"] or 0),
    infer=lambda shapes, attrs: [tuple(attrs["size"])],
    attrs={"size": Attr("ints"), "stride": Attr("ints"), "storage_offset": Attr("int|none", None)},
    sample=lambda shape: Sample((shape,), {"size": list(shape), "stride": _contiguous_strides(shape)}, channels_last=False),
    limitations=(Limitation("TTNN tensors have no strides: a strided view has no counterpart"),),
)
