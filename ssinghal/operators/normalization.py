"""Normalizations. Torch's ``native_`` forms also return statistics, which TTNN does not: they have one result here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, ResizableCall, Sizes, along
from ssinghal.operators.dims import cut_rows, units
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    INTEGERS,
    Attr,
    Attrs,
    Call,
    Limitation,
    MapResult,
    OperatorInfo,
    Sample,
    Traits,
    operand_spec,
)


def _optional(inputs: Sequence[Any], position: int) -> Any:
    return inputs[position] if position < len(inputs) else None


# Over the batch -----------------------------------------------------------------------------------------------------------


def _batch_norm_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if len(shapes[0]) < 2 or any(s != shapes[0][1:2] for s in shapes[1:]):
        raise InvalidCase(f"batch_norm of {list(shapes[0])} takes one value per channel (dim 1) in each other operand")
    return [shapes[0]]


def _place_batch_norm(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places a vector of one value per channel as [1, C, 1, 1], one tile per value."""
    return [
        operand_spec(case, shapes[0]),
        *(operand_spec(case, (1, math.prod(s), 1, 1), layout=Layout.TILE) for s in shapes[1:]),
    ]


def _batch_norm(c: Call) -> Any:
    weight, bias, mean, variance = (_optional(c.inputs, i) for i in range(1, 5))
    return c.ttnn.batch_norm(
        c.inputs[0],
        weight=weight,
        bias=bias,
        running_mean=mean,
        running_var=variance,
        training=c.attrs["training"],
        momentum=c.attrs["momentum"],
        eps=c.attrs["eps"],
        **c.out,
    )


def _torch_batch_norm(t: Any, x: Sequence[Any], a: Attrs) -> Any:
    weight, bias, mean, variance = (_optional(x, i) for i in range(1, 5))
    return t.nn.functional.batch_norm(x[0], mean, variance, weight, bias, a["training"], a["momentum"], a["eps"])


def _batch_norm_sample(shape: Shape) -> Sample:
    channels = (shape[1],) if len(shape) > 1 else (1,)
    return Sample((shape, *[channels] * 4), {}, channels_last=False)


def _cut_channels(call: CuttableCall) -> Axes | None:
    """With given statistics every element is independent; those of training are over all dims but the channels."""
    shape = call.inputs[0]
    if len(shape) != 4:
        return None
    dims, others = along(4), len(call.inputs) - 1
    channels: Dims = ((1, 1),)
    return call.axes(
        [dims],
        units(shape, (0, 2, 3) if call.attrs["training"] else ()),
        written=[dims, *[channels] * others],
        placed=[dims, *[(None, *channels, None, None)] * others],
    )


BATCH_NORM = OperatorInfo(
    names=("native_batch_norm", "batch_norm", "BatchNorm2d"),
    aten=(
        "aten.native_batch_norm.default",
        "aten.batch_norm.default",
        "aten._native_batch_norm_legit.default",
        "aten._native_batch_norm_legit_no_training.default",
    ),
    operands=("input", "weight?", "bias?", "running_mean?", "running_var?"),
    ttnn="ttnn.batch_norm",
    call=_batch_norm,
    torch=_torch_batch_norm,
    infer=_batch_norm_shape,
    attrs={
        "training": Attr("bool", False),
        "momentum": Attr("float", 0.1),
        "eps": Attr("float", 1e-5),
        "cudnn_enabled": Attr("bool|none", None),
    },
    place=_place_batch_norm,
    sample=_batch_norm_sample,
    dims=DimRule(cut=_cut_channels),
    traits=Traits(
        temporaries=True, positive=(4,), weights=(1, 2, 3, 4)
    ),  # in training: the reductions of the batch's own statistics
    limitations=(
        Limitation("ttnn.batch_norm takes tile layout only", layouts=(Layout.ROW_MAJOR,)),
        Limitation("ttnn.batch_norm takes bfloat16 and float32 only", dtypes=(*BLOCK_FLOATS, *INTEGERS)),
        Limitation("ttnn.batch_norm takes rank 4 only", when=lambda shapes, attrs: len(shapes[0]) != 4),
        Limitation(
            "ttnn.batch_norm needs running_mean and running_var outside training",
            when=lambda shapes, attrs: not attrs["training"] and len(shapes) < 5,
        ),
    ),
)

# Over the last dim --------------------------------------------------------------------------------------------------------


def _last_dim_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    normalized = tuple(attrs["normalized_shape"])
    if not normalized or shapes[0][-len(normalized) :] != normalized:
        raise InvalidCase(f"normalized_shape {list(normalized)} is not the end of {list(shapes[0])}")
    if any(s != normalized for s in shapes[1:]):
        raise InvalidCase(f"weight and bias have the normalized shape {list(normalized)}")
    return [shapes[0]]


def _place_last_dim(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places weight and bias as tiles; row-major ones would have to be cut to rows of 32 first."""
    return [operand_spec(case, shapes[0]), *(operand_spec(case, s, layout=Layout.TILE) for s in shapes[1:])]


def _last_dim_sample(operands: int) -> Any:
    def sample(shape: Shape) -> Sample:
        """Builds the sweep's call: a map as NHWC, so that the channels are normalized."""
        placed = (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape
        width = placed[-1:]
        return Sample((placed, *[width] * (operands - 1)), {"normalized_shape": list(width)}, channels_last=False)

    return sample


def _cut_leading(call: CuttableCall) -> Axes | None:
    """All but the trailing dims, along which the operator works, can be cut; weights are not."""
    rank = len(call.inputs[0])
    return cut_rows(call, range(rank - len(call.attrs["normalized_shape"]), rank))


LEADING_DIMS = DimRule(cut=_cut_leading)
NOT_FLOATS = (DType.BFLOAT4_B, *INTEGERS)
LAST_DIM_ONLY = Limitation(
    "TTNN normalizes the last dim only", when=lambda shapes, attrs: len(attrs["normalized_shape"]) != 1, taken=True
)

LAYER_NORM = OperatorInfo(
    names=("native_layer_norm", "layer_norm", "LayerNorm"),
    aten=("aten.native_layer_norm.default", "aten.layer_norm.default"),
    operands=("input", "weight?", "bias?"),
    ttnn="ttnn.layer_norm",
    call=lambda c: c.ttnn.layer_norm(
        c.inputs[0], weight=_optional(c.inputs, 1), bias=_optional(c.inputs, 2), epsilon=c.attrs["eps"], **c.out
    ),
    torch=lambda t, x, a: t.nn.functional.layer_norm(
        x[0], list(a["normalized_shape"]), _optional(x, 1), _optional(x, 2), a["eps"]
    ),
    infer=_last_dim_shape,
    attrs={
        "normalized_shape": Attr("ints"),
        "eps": Attr("float", 1e-5),
        "cudnn_enable": Attr("bool|none", None),
    },
    place=_place_last_dim,
    sample=_last_dim_sample(3),
    dims=LEADING_DIMS,
    traits=Traits(weights=(1, 2)),
    limitations=(
        LAST_DIM_ONLY,
        Limitation("ttnn.layer_norm takes float32, bfloat16 and bfloat8_b only", dtypes=NOT_FLOATS),
        Limitation(
            "ttnn.layer_norm in row-major layout takes a last dim that is a multiple of 32",
            (Layout.ROW_MAJOR,),
            when=lambda shapes, attrs: shapes[0][-1] % TILE_EDGE != 0,
        ),
    ),
)


def _rms_norm(c: Call) -> Any:
    """Without eps torch takes the machine epsilon of the dtype: 2^-23, or 2^-7 for bfloat16, in which block floats compute."""
    epsilon = c.attrs["eps"]
    if epsilon is None:
        epsilon = 2.0**-23 if c.case.placement.dtype is DType.FLOAT32 else 2.0**-7
    return c.ttnn.rms_norm(c.inputs[0], weight=_optional(c.inputs, 1), epsilon=epsilon, **c.out)


RMS_NORM = OperatorInfo(
    names=("rms_norm", "RMSNorm"),
    aten=("aten.rms_norm.default", "aten._fused_rms_norm.default"),
    operands=("input", "weight?"),
    ttnn="ttnn.rms_norm",
    call=_rms_norm,
    torch=lambda t, x, a: t.nn.functional.rms_norm(x[0], list(a["normalized_shape"]), _optional(x, 1), a["eps"]),
    infer=_last_dim_shape,
    attrs={"normalized_shape": Attr("ints"), "eps": Attr("float|none", None)},
    place=_place_last_dim,
    sample=_last_dim_sample(2),
    dims=LEADING_DIMS,
    traits=Traits(weights=(1,)),
    limitations=(
        LAST_DIM_ONLY,
        Limitation("ttnn.rms_norm takes float32, bfloat16 and bfloat8_b only", dtypes=NOT_FLOATS),
        Limitation("ttnn.rms_norm takes tile layout only", layouts=(Layout.ROW_MAJOR,)),
    ),
)

# Over groups of channels --------------------------------------------------------------------------------------------------


def _groups(attrs: Attrs) -> int:
    """Reads the number of groups: ``native_group_norm`` calls it group, ``group_norm`` num_groups."""
    counts = [attrs[name] for name in ("group", "num_groups") if attrs[name] is not None]
    if len(counts) != 1 or counts[0] < 1:
        raise InvalidCase("group_norm takes group (or num_groups), one of them")
    return int(counts[0])


def _group_norm_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    shape = shapes[0]
    if len(shape) < 2 or shape[1] % _groups(attrs) or any(s != (shape[1],) for s in shapes[1:]):
        raise InvalidCase(f"group_norm of {list(shape)}: {_groups(attrs)} groups of channels, weight and bias one value each")
    whole = {"N": shape[0], "C": shape[1], "HxW": math.prod(shape[2:])}
    wrong = {name: attrs[name] for name, size in whole.items() if attrs[name] not in (None, size)}
    if wrong:
        raise InvalidCase(f"group_norm of {list(shape)} does not go with {wrong}")
    return [shape]


def _channels_last_rows(shape: Shape) -> Shape:
    """[N, C, *spatial] -> [N, 1, spatial, C]."""
    return (shape[0], 1, math.prod(shape[2:]), shape[1])


def _place_group_norm(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places weight and bias as rows of 32 values, row-major."""
    rows = (operand_spec(case, (1, 1, ceil_div(s[0], TILE_EDGE), TILE_EDGE), layout=Layout.ROW_MAJOR) for s in shapes[1:])
    return [operand_spec(case, _channels_last_rows(shapes[0])), *rows]


def _group_norm(c: Call) -> Any:
    """Calls it on the largest grid that TTNN allows for the shape, in blocks of rows that leave half of L1 to tensors.

    By default TTNN takes blocks that overflow L1 for tall maps. Its program buffers hold seven copies of a block (measured):
    rows x tiles that one group of channels can span.
    """
    x, groups = c.inputs[0], _groups(c.attrs)
    stated = {"core_grid", "num_out_blocks"} & c.settings.keys()
    return c.ttnn.group_norm(
        x,
        num_groups=groups,
        epsilon=c.attrs["eps"],
        weight=_optional(c.inputs, 1),
        bias=_optional(c.inputs, 2),
        inplace=False,
        output_layout=x.layout,
        **({} if stated else _blocks(c, groups)),
        **c.out,
    )


def _blocks(c: Call, groups: int) -> dict[str, Any]:
    """Returns grid and blocks of a call that states neither."""
    x, channels = c.inputs[0], c.inputs[0].shape[-1]
    tile_rows = math.prod(tuple(x.padded_shape)[:-1]) // TILE_EDGE
    grid = _group_norm_grid(c, tile_rows, groups)
    core_rows = tile_rows // (grid.x // _columns(grid.x, groups, channels) * grid.y)
    tile_bytes = TensorSpec((1, 1), c.case.placement.dtype).page_bytes
    bank_bytes = c.ttnn.get_memory_view(c.device, c.ttnn.BufferType.L1).total_bytes_per_bank
    block_rows = max(1, bank_bytes // 2 // (7 * _tiles_of_a_group(channels // groups) * tile_bytes))
    return {"core_grid": grid, "num_out_blocks": ceil_div(core_rows, block_rows)}


def _group_norm_grid(c: Call, tile_rows: int, groups: int) -> Any:
    """Returns TTNN's grid; where a release has no such function (0.66), one that shares channels and tiles evenly."""
    shape = c.inputs[0].shape
    determine = getattr(c.ttnn, "determine_expected_group_norm_dram_grid_size", None)
    if determine is not None:
        return determine(
            device=c.device,
            num_channels=shape[-1],
            num_groups=groups,
            input_nhw=tile_rows * TILE_EDGE,
            num_batches=shape[0],
        )
    whole = c.device.compute_with_storage_grid_size()
    rows = max(n for n in range(1, whole.y + 1) if tile_rows % n == 0)
    return c.ttnn.CoreGrid(x=_columns(whole.x, groups, shape[-1]), y=rows)


def _columns(grid_width: int, groups: int, channels: int) -> int:
    """Returns into how many column ranges of cores TTNN splits the channels: complete groups and tiles for each."""
    fits = (n for n in range(min(grid_width, groups), 0, -1) if groups % n == 0 and channels % (n * TILE_EDGE) == 0)
    return next(fits)


def _tiles_of_a_group(width: int) -> int:
    """Returns how many tiles ``width`` neighbouring channels can touch at most, when groups follow each other from 0."""
    return (width + TILE_EDGE - math.gcd(width, TILE_EDGE) - 1) // TILE_EDGE + 1


def _group_norm_sample(shape: Shape) -> Sample:
    channels = shape[1] if len(shape) > 1 else 1
    return Sample((shape, (channels,), (channels,)), {"group": math.gcd(channels, 32)}, channels_last=None)


def _resize_groups(call: ResizableCall, sizes: Sizes) -> Attrs:
    """N and HxW, where the call has them, are sizes of its map."""
    shape = [sizes.get(dim, size) for dim, size in enumerate(call.subject)]
    counts = {"N": shape[0], "HxW": math.prod(shape[2:])}
    return {**call.attrs, **{name: n for name, n in counts.items() if call.attrs.get(name) is not None}}


def _cut_groups(call: CuttableCall) -> Axes | None:
    """Maps, and groups of channels, so many together that their channels fill complete tiles, as TTNN takes them."""
    shape, groups = call.map, _groups(call.attrs)
    if shape[1] % TILE_EDGE:
        return None
    width = shape[1] // groups
    together = TILE_EDGE // math.gcd(TILE_EDGE, width)
    units = groups // together if groups % together == 0 else 1
    channels = together * width
    vectors = len(call.inputs) - 1
    placed: Dims = ((0, 1), None, None, (1, channels))
    return call.axes(
        [placed],
        {0: shape[0], 1: units},
        written=[call.of_map((0, 1), (1, channels)), *[((1, channels),)] * vectors],
        placed=[placed, *[(None, None, (1, channels // TILE_EDGE), None)] * vectors],
        attrs_for=lambda attrs, sizes: _fewer_groups(attrs, sizes, together, channels),
    )


def _fewer_groups(attrs: Attrs, sizes: Sizes, together: int, channels: int) -> Attrs:
    """Returns the attributes, where they have sizes, for other sizes of the axes: maps, and units of ``together`` groups."""
    known = {"N": (0, 1), "C": (1, channels), "group": (1, together), "num_groups": (1, together)}
    changed = {
        name: step * sizes[axis] for name, (axis, step) in known.items() if axis in sizes and attrs.get(name) is not None
    }
    return {**attrs, **changed}


GROUP_NORM = OperatorInfo(
    names=("native_group_norm", "group_norm", "GroupNorm"),
    aten=("aten.native_group_norm.default", "aten.group_norm.default"),
    operands=("input", "weight?", "bias?"),
    ttnn="ttnn.group_norm",
    call=_group_norm,
    torch=lambda t, x, a: t.nn.functional.group_norm(x[0], _groups(a), _optional(x, 1), _optional(x, 2), a["eps"]),
    infer=_group_norm_shape,
    attrs={
        "N": Attr("int|none", None),
        "C": Attr("int|none", None),
        "HxW": Attr("int|none", None),
        "group": Attr("int|none", None),
        "num_groups": Attr("int|none", None),
        "eps": Attr("float", 1e-5),
        "cudnn_enabled": Attr("bool|none", None),
    },
    place=_place_group_norm,
    sample=_group_norm_sample,
    dims=DimRule(resize=_resize_groups, cut=_cut_groups),
    traits=Traits(
        nhwc=MapResult.FLAT,
        result_form=lambda shape, attrs: (_channels_last_rows(shape), None),
        temporaries=True,
        weights=(1, 2),
    ),
    limitations=(
        Limitation("ttnn.group_norm takes bfloat16 and float32 only", dtypes=(*BLOCK_FLOATS, *INTEGERS)),
        Limitation("ttnn.group_norm takes multiples of 32 channels", when=lambda shapes, attrs: shapes[0][1] % TILE_EDGE != 0),
        Limitation("ttnn.group_norm takes tile layout only on Blackhole", (Layout.ROW_MAJOR,), arch="blackhole"),
        Limitation(
            "ttnn.group_norm in row-major layout takes multiples of 32 pixels",
            (Layout.ROW_MAJOR,),
            when=lambda shapes, attrs: math.prod(shapes[0][2:]) % TILE_EDGE != 0,
        ),
    ),
)

OPERATORS: tuple[OperatorInfo, ...] = (BATCH_NORM, LAYER_NORM, RMS_NORM, GROUP_NORM)
