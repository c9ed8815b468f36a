"""Shape operators that are views in torch: other shape, other order of dims, other layout; and what TTNN does for them.

TTNN has no strides. A result shares its operand's buffer where TTNN's own condition for a view holds (``is_view``), and is a
copy elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import (
    TILE_EDGE,
    BufferType,
    Cores,
    DType,
    Layout,
    MemoryConfig,
    Shape,
    ShardKind,
    ShardSpec,
    TensorSpec,
)
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, ResizableCall, Sizes, along
from ssinghal.operators.dims import cut_rows, cut_with_new_dim, units
from ssinghal.operators.operator_info import (
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    normal_dim,
    normal_dims,
    operand_spec,
    to_nhwc,
)
from ssinghal.operators.resizing import scaled

Specs = Sequence[TensorSpec]


def is_view(inputs: Specs, outputs: Specs) -> bool:
    """Checks TTNN's condition (documented at ``ttnn.reshape``) for a result that shares its operand's buffer.

    Same memory, same last dim, and in tile layout the same second last dim, or one without padding.
    """
    x, y = inputs[0], outputs[0]
    if x.memory != y.memory or x.volume != y.volume or x.shape[-1] != y.shape[-1]:
        return False
    heights = [spec.shape[-2] if len(spec.shape) > 1 else 1 for spec in (x, y)]
    return x.layout is Layout.ROW_MAJOR or heights[0] == heights[1] or not any(h % TILE_EDGE for h in heights)


def is_unchanged(inputs: Specs, outputs: Specs) -> bool:
    """Returns whether the one result equals the one operand, which TTNN then returns."""
    return len(inputs) == len(outputs) == 1 and inputs[0] == outputs[0]


def mapped_tiles(inputs: Specs, outputs: Specs) -> int:
    """A tile reshape that is no view lists the source pages of every output tile on the host."""
    return 0 if inputs[0].layout is Layout.ROW_MAJOR or is_view(inputs, outputs) else outputs[0].num_pages


def in_requested_memory(c: Call, result: Any) -> Any:
    """Returns ``result``, moved if need be: TTNN ignores the memory config where it returns its operand as it is."""
    return c.ttnn.to_memory_config(result, **c.out) if "memory_config" in c.out else result


# Other shape, same order --------------------------------------------------------------------------------------------------

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

# Other order of dims ------------------------------------------------------------------------------------------------------


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

# Other layout -------------------------------------------------------------------------------------------------------------


EVERY_DIM = DimRule(cut=cut_rows)
DTYPE = Attr("str|none", None)  # of the result, where the change of layout is also a cast


def _layout_attr(attrs: Attrs) -> Layout:
    try:
        return Layout(attrs["layout"])
    except ValueError:
        raise InvalidCase(f"layout {attrs['layout']!r} is neither tile nor row_major") from None


def _to_layout(c: Call, layout: Layout) -> Any:
    wanted = c.ttnn.TILE_LAYOUT if layout is Layout.TILE else c.ttnn.ROW_MAJOR_LAYOUT
    cast = {} if c.attrs["dtype"] is None else {"dtype": getattr(c.ttnn, _dtype_attr(c.attrs).value)}
    return in_requested_memory(c, c.ttnn.to_layout(c.inputs[0], wanted, **cast, **c.out))


def _dtype_attr(attrs: Attrs) -> DType:
    return dtype_named(attrs["dtype"])


def _laid_out_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    return (None if attrs["dtype"] is None else _dtype_attr(attrs),)


def _row_shards(case: Case, shape: Shape, attrs: Attrs) -> TensorSpec:
    """Places a row-major operand in DRAM whose rows are cut over ``shards`` banks; with 1 it is interleaved like any other."""
    plain = operand_spec(case, shape, layout=Layout.ROW_MAJOR)
    count = attrs["shards"]
    if count == 1:
        return plain
    height, width = plain.padded_2d
    if count < 1 or width % count or plain.memory.buffer is not BufferType.DRAM:
        raise InvalidCase(f"tilize: shards {count}: expected a divisor of the width, {width}, of an operand in DRAM")
    shard = ShardSpec(ShardKind.WIDTH, (height, width // count), Cores.grid(count, 1))
    return replace(plain, memory=MemoryConfig(BufferType.DRAM, shard))


def _tilize(c: Call) -> Any:
    """Calls the operation below ``to_layout``, which takes shards of any size; ``to_layout`` takes those of whole tiles."""
    if c.attrs["shards"] == 1:
        return _to_layout(c, Layout.TILE)
    padded = TensorSpec(tuple(c.inputs[0].shape)).padded_shape
    cast = {} if c.attrs["dtype"] is None else {"dtype": getattr(c.ttnn, _dtype_attr(c.attrs).value)}
    return c.ttnn.tilize_with_val_padding(c.inputs[0], list(padded), 0.0, **cast, **c.out)


def _one_way(name: str, source: Layout, target: Layout) -> OperatorInfo:
    """Declares ``to_layout`` in one direction, whatever layout the placement names."""

    def place(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
        return [operand_spec(case, shape, layout=source) for shape in shapes]

    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=("self",),
        ttnn="ttnn.to_layout",
        call=lambda c: _to_layout(c, target),
        torch=_same_values,
        attrs={"dtype": DTYPE},
        place=place,
        sample=lambda shape: Sample((shape,), {}),
        dims=EVERY_DIM,
        traits=Traits(output_layout=target, output_dtypes=_laid_out_dtypes),
    )


def _same_values(t: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    return tensors[0].clone()


LAYOUTS = (
    OperatorInfo(
        names=("to_layout",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.to_layout",
        call=lambda c: _to_layout(c, _layout_attr(c.attrs)),
        torch=_same_values,
        attrs={"layout": Attr("str"), "dtype": DTYPE},
        sample=lambda shape: Sample((shape,), {"layout": "row_major"}),
        dims=EVERY_DIM,
        traits=Traits(
            alias=is_unchanged,
            result_form=lambda shape, attrs: (shape, _layout_attr(attrs)),
            output_dtypes=_laid_out_dtypes,
        ),
    ),
    replace(
        _one_way("tilize", Layout.ROW_MAJOR, Layout.TILE),
        call=_tilize,
        attrs={"dtype": DTYPE, "shards": Attr("int", 1)},
        place=lambda case, shapes, attrs: [_row_shards(case, shape, attrs) for shape in shapes],
    ),
    _one_way("untilize", Layout.TILE, Layout.ROW_MAJOR),
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

VIEWS = (*RESHAPES, *REORDERS, *LAYOUTS, AS_STRIDED)
