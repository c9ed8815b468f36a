"""Convolutions: one ATen operator for 1, 2 and 3 spatial dims, transposed or not, and four TTNN functions.

Weights go to the device as torch has them. TTNN converts them to the form that its kernels take, on the host, within the call,
and in the dtype that ``weights_dtype`` requests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES, Case
from ssinghal.core.memory_config import Sharding
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, MemoryConfig, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory
from ssinghal.operators.conv_shards import ShardedConvolution
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims
from ssinghal.operators.operator_info import (
    INTEGERS,
    SAME_DTYPE,
    WEIGHTS_DTYPE,
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    MapResult,
    OperatorInfo,
    Sample,
    Traits,
    flat_nhwc,
    operand_spec,
    weights_dtype,
    working_shapes,
)
from ssinghal.operators.settings.passing import built_fields

MAP, VOLUME = 4, 5  # ranks
SPATIAL = ("stride", "padding", "dilation", "output_padding")

# How TTNN runs a convolution of maps, for which torch has no arguments. "auto" and 0: TTNN chooses.
AUTO = "auto"
TUNING = {
    "slices": Attr("str", AUTO),  # "l1": the whole map at once; "height:4", "width:8": this many slices of a map in DRAM
    "shard_layout": Attr("str", AUTO),  # "height", "width" or "block": how the map is sharded over the cores meanwhile
    "act_block_h": Attr("int", 0),  # rows of the block that a core holds at a time
}
_SLICES = re.compile(r"(height|width):([1-9]\d*)")
_SHARDS = ("height", "width", "block")


def _spatial(attrs: Attrs, name: str, dims: int) -> list[int]:
    """Returns an argument that is one number for all spatial dims, or one for each, as a list."""
    value = attrs[name]
    numbers = [value] if isinstance(value, int) else list(value)
    numbers = numbers * dims if len(numbers) == 1 else numbers
    if len(numbers) != dims:
        raise InvalidCase(f"convolution over {dims} dims: {name} {numbers} is not one number, or one for each dim")
    return numbers


def _out_channels(weight: Shape, attrs: Attrs) -> int:
    return weight[1] * attrs["groups"] if attrs["transposed"] else weight[0]


def _check(shapes: Sequence[Shape], attrs: Attrs) -> None:
    """Raises InvalidCase for what TTNN would take silently or crash on."""
    image, weight, groups = shapes[0], shapes[1], attrs["groups"]
    if not 3 <= len(image) <= 5 or len(weight) != len(image):
        raise InvalidCase(f"convolution takes rank 3 to 5 for both, not {list(image)} and weight {list(weight)}")
    channels = weight[0] if attrs["transposed"] else weight[1] * groups
    if groups < 1 or image[1] != channels or _out_channels(weight, attrs) % groups:
        raise InvalidCase(f"weight {list(weight)} in {groups} groups does not go with {image[1]} channels")
    if len(shapes) > 2 and shapes[2] != (_out_channels(weight, attrs),):
        raise InvalidCase(f"bias {list(shapes[2])} is not one value for each of {_out_channels(weight, attrs)} channels")
    dims = len(image) - 2
    if min(_spatial(attrs, "stride", dims)) < 1 or min(_spatial(attrs, "dilation", dims)) < 1:
        raise InvalidCase("convolution: stride and dilation are at least 1")
    if min(*_spatial(attrs, "padding", dims), *_spatial(attrs, "output_padding", dims)) < 0:
        raise InvalidCase("convolution: padding and output_padding are at least 0")
    _check_tuning(image, attrs)
    if len(image) == VOLUME and attrs[WEIGHTS_DTYPE] != SAME_DTYPE.default:
        raise InvalidCase("convolution: weights_dtype has no effect in ttnn.experimental.conv3d")
    weights_dtype(DType.BFLOAT16, attrs)  # raises InvalidCase for a name that is none


def _check_tuning(image: Shape, attrs: Attrs) -> None:
    tuning = [name for name, attr in TUNING.items() if attrs[name] != attr.default]
    if tuning and (len(image) != MAP or attrs["transposed"]):
        raise InvalidCase(f"convolution: {', '.join(tuning)} is for plain convolutions over 2 dims")
    slices, shard = attrs["slices"], attrs["shard_layout"]
    if slices not in (AUTO, "l1") and not _SLICES.fullmatch(slices):
        raise InvalidCase(f"convolution: slices {slices!r}; expected auto, l1, height:COUNT or width:COUNT")
    if shard not in (AUTO, *_SHARDS):
        raise InvalidCase(f"convolution: shard_layout {shard!r}; expected auto, {', '.join(_SHARDS)}")
    if attrs["act_block_h"] % TILE_EDGE or attrs["act_block_h"] < 0:
        raise InvalidCase(f"convolution: act_block_h {attrs['act_block_h']}; expected a multiple of {TILE_EDGE}")


def _result_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    _check(shapes, attrs)
    image, weight = shapes[0], shapes[1]
    dims = len(image) - 2
    sizes = []
    for i in range(dims):
        stride, padding, dilation, extra = (_spatial(attrs, name, dims)[i] for name in SPATIAL)
        reach = dilation * (weight[2 + i] - 1)
        if attrs["transposed"]:
            size = (image[2 + i] - 1) * stride - 2 * padding + reach + extra + 1
        else:
            size = (image[2 + i] + 2 * padding - reach - 1) // stride + 1
        if size < 1:
            raise InvalidCase(f"convolution: kernel {list(weight[2:])} is larger than the padded input {list(image[2:])}")
        sizes.append(size)
    return [(image[0], _out_channels(weight, attrs), *sizes)]


def _channels_last(shape: Shape) -> Shape:
    """[N, C, *spatial] -> [N, *spatial, C]."""
    return (shape[0], *shape[2:], shape[1])


def _form(shape: Shape, attrs: Attrs) -> tuple[Shape, Layout | None]:
    """Volumes return as [N, D, H, W, C] in row-major layout; maps and rows flat and tiled, as [1, 1, N*H*W, C]."""
    if len(shape) == VOLUME:
        return _channels_last(shape), Layout.ROW_MAJOR
    return flat_nhwc(shape), Layout.TILE


def _result_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    """The call's; asked before any spec is built, so it states why no block float goes through a convolution over 3 dims."""
    if dtype.is_block_float and len(shapes[0]) == VOLUME:
        raise InvalidCase(f"ttnn.experimental.conv3d takes row_major volumes, and {dtype} exists in tile layout only")
    return ()


def _place(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Row-major whatever the placement's layout, since TTNN tilizes as it needs; weights always in DRAM.

    A map of block floats exists in tiles only, and comes flat, as the convolution before it returns it; its weight comes in
    bfloat16, from which TTNN prepares it. Flat come also maps that are sharded, or for which the case requests tiles.
    """
    dtype, own = case.placement.dtype, case.placement.operand(0)
    is_block_float = (own.dtype or dtype).is_block_float
    wide = DType.BFLOAT16 if dtype.is_block_float else dtype
    if len(shapes[0]) < VOLUME and (is_block_float or own.layout is Layout.TILE or case.placement.is_sharded(0)):
        layout = own.layout or (case.placement.layout if is_block_float else Layout.ROW_MAJOR)
        image = operand_spec(case, flat_nhwc(shapes[0]), dtype=own.dtype or dtype, layout=layout)
    else:
        image = operand_spec(case, _channels_last(shapes[0]), layout=Layout.ROW_MAJOR)
    in_dram = {"dtype": wide, "layout": Layout.ROW_MAJOR, "memory": MemoryConfig()}
    specs = [image, operand_spec(case, shapes[1], **in_dram)]
    if len(shapes) > 2 and len(shapes[0]) == VOLUME:
        specs.append(operand_spec(case, (1, *shapes[2]), layout=Layout.TILE, memory=MemoryConfig()))
    elif len(shapes) > 2:
        specs.append(operand_spec(case, (1, 1, 1, *shapes[2]), **in_dram))
    return specs


def _own_shards(
    shapes: Sequence[Shape], attrs: Attrs, settings: Attrs, sharding: Sharding, image: TensorSpec, grid: tuple[int, int]
) -> Sharding:
    """Returns the shards that ttnn.conv2d makes of a map. A patch convolution, whose stride is its kernel, is folded by TTNN
    where it comes interleaved; sharded it is taken as it is."""
    config = settings.get("conv_config") or {}
    if len(shapes[0]) == VOLUME or config.get("override_sharding_config"):
        return sharding
    batch, out_channels, *sizes = _result_shape(shapes, attrs)[0]
    dims = len(sizes)
    plain = {"stride": 1, "dilation": 1, "padding": 0}
    is_matmul = set(shapes[1][2:]) == {1} and all(set(_spatial(attrs, x, dims)) == {value} for x, value in plain.items())
    block_rows = attrs["act_block_h"] or config.get("act_block_h_override") or 0
    convolution = ShardedConvolution(shapes[0][1], out_channels, batch * math.prod(sizes), is_matmul, block_rows)
    return convolution.choose(sharding, image, grid)


def _convolve(c: Call) -> Any:
    """Calls the function for rank and direction. The result of an operand in DRAM stays there, so it is moved if need be."""
    image = working_shapes(CONVOLUTION, c.case)[0]  # a flat map does not show its height and width
    dims = len(image) - 2
    spatial = {name: _spatial(c.attrs, name, dims) for name in SPATIAL}
    if dims == 3:
        return in_requested_memory(c, _conv3d(c, spatial))
    run = _conv1d if dims == 1 else _conv_transpose2d if c.attrs["transposed"] else _conv2d
    return in_requested_memory(c, run(c, image, spatial))


def _common(c: Call) -> dict[str, Any]:
    bias = c.inputs[2] if len(c.inputs) > 2 else None
    return {"bias_tensor": bias, "device": c.device, "groups": c.attrs["groups"], **c.out}


def _channels(c: Call, image: Shape) -> dict[str, int]:
    return {"in_channels": image[1], "out_channels": _out_channels(tuple(c.inputs[1].shape), c.attrs), "batch_size": image[0]}


def _precision(c: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments of the call, and those of its config, where a dtype is not that of the weight as it comes."""
    dtype = c.case.placement.dtype
    weights = weights_dtype(dtype, c.attrs)
    call = {"dtype": getattr(c.ttnn, dtype.value)} if dtype.is_block_float and "dtype" not in c.out else {}
    return call, {WEIGHTS_DTYPE: getattr(c.ttnn, weights.value)} if dtype.is_block_float or weights is not dtype else {}


def _stated(c: Call, setting: str) -> dict[str, Any]:
    """Returns the fields of a config that the call states, as arguments of its class."""
    return built_fields(c.ttnn, c.settings[setting]) if c.settings.get(setting) else {}


def _conv1d(c: Call, image: Shape, spatial: dict[str, list[int]]) -> Any:
    arguments, config = _precision(c)
    config |= _stated(c, "conv_config")
    return c.ttnn.conv1d(
        input_tensor=c.inputs[0],
        weight_tensor=c.inputs[1],
        input_length=image[2],
        kernel_size=c.inputs[1].shape[2],
        stride=spatial["stride"][0],
        padding=spatial["padding"][0],
        dilation=spatial["dilation"][0],
        **_channels(c, image),
        **_common(c),
        **arguments,
        **({"conv_config": c.ttnn.Conv1dConfig(**config)} if config or "conv_config" in c.settings else {}),
    )


def _map(c: Call, image: Shape, spatial: dict[str, list[int]]) -> dict[str, Any]:
    arguments, config = _precision(c)
    config |= _blocks(c) | _stated(c, "conv_config")
    return {
        "input_tensor": c.inputs[0],
        "input_height": image[2],
        "input_width": image[3],
        "kernel_size": [c.inputs[1].shape[2], c.inputs[1].shape[3]],
        "stride": spatial["stride"],
        "padding": spatial["padding"],
        "dilation": spatial["dilation"],
        **_channels(c, image),
        **_common(c),
        **arguments,
        **({"conv_config": c.ttnn.Conv2dConfig(**config)} if config or "conv_config" in c.settings else {}),
    }


def _conv2d(c: Call, image: Shape, spatial: dict[str, list[int]]) -> Any:
    return c.ttnn.conv2d(weight_tensor=c.inputs[1], **_map(c, image, spatial), **_sliced(c))


def _blocks(c: Call) -> dict[str, Any]:
    ttnn, shard = c.ttnn, c.attrs["shard_layout"]
    return {
        **({"act_block_h_override": c.attrs["act_block_h"]} if c.attrs["act_block_h"] else {}),
        **({"shard_layout": getattr(ttnn.TensorMemoryLayout, f"{shard.upper()}_SHARDED")} if shard != AUTO else {}),
    }


def _sliced(c: Call) -> dict[str, Any]:
    ttnn, slices = c.ttnn, c.attrs["slices"]
    if slices == "l1":
        return {"slice_config": ttnn.Conv2dL1FullSliceConfig}
    slicing = _SLICES.fullmatch(slices)
    if not slicing:
        return {}
    along = getattr(ttnn, f"Conv2dDRAMSlice{slicing[1].title()}")
    return {"slice_config": ttnn.Conv2dSliceConfig(slice_type=along, num_slices=int(slicing[2]))}


def _conv_transpose2d(c: Call, image: Shape, spatial: dict[str, list[int]]) -> Any:
    """TTNN prepares these weights, and a bias that does not fill whole tiles, from host memory only."""
    arguments = _map(c, image, spatial)
    if arguments["bias_tensor"] is not None:
        arguments["bias_tensor"] = c.ttnn.from_device(arguments["bias_tensor"])
    return c.ttnn.conv_transpose2d(
        weight_tensor=c.ttnn.from_device(c.inputs[1]), output_padding=spatial["output_padding"], **arguments
    )


def _conv3d(c: Call, spatial: dict[str, list[int]]) -> Any:
    """TTNN prepares these weights from host memory only, for whole tiles of channels, to which the volume is padded."""
    x, weight = c.inputs[0], c.inputs[1]
    missing = -x.shape[4] % TILE_EDGE
    if missing:
        x = c.ttnn.pad(x, [(0, 0)] * 4 + [(0, missing)], 0.0)
    return c.ttnn.experimental.conv3d(
        input_tensor=x,
        weight_tensor=c.ttnn.from_device(weight),
        output_channels=weight.shape[0],
        kernel_size=[weight.shape[2], weight.shape[3], weight.shape[4]],
        stride=spatial["stride"],
        padding=spatial["padding"],
        dilation=spatial["dilation"],
        dtype=x.dtype,
        **_common(c),
    )


def _torch(t: Any, x: Sequence[Any], a: Attrs) -> Any:
    dims = x[0].dim() - 2
    spatial = {name: _spatial(a, name, dims) for name in SPATIAL}
    bias = x[2] if len(x) > 2 else None
    return t.convolution(x[0], x[1], bias, **spatial, transposed=a["transposed"], groups=a["groups"])


def _function(shapes: Sequence[Shape], attrs: Attrs) -> str:
    if len(shapes[0]) == VOLUME:
        return "experimental.conv3d"
    return "conv1d" if len(shapes[0]) < MAP else "conv_transpose2d" if attrs["transposed"] else "conv2d"


def _check_settings(settings: Attrs, attrs: Attrs) -> None:
    """Raises InvalidCase where an attribute and a config differ on the same thing."""
    config = settings.get("conv_config") or {}
    shard = attrs["shard_layout"]
    stated = {
        WEIGHTS_DTYPE: None if attrs[WEIGHTS_DTYPE] == AUTO else weights_dtype(DType.BFLOAT16, attrs).value,
        "shard_layout": None if shard == AUTO else f"{shard.upper()}_SHARDED",
        "act_block_h_override": attrs["act_block_h"] or None,
    }
    for name, value in stated.items():
        if value is not None and config.get(name, value) != value:
            attribute = name.removesuffix("_override")
            raise InvalidCase(f"convolution: {attribute} {value} contradicts {name}={config[name]} of conv_config")
    if attrs["slices"] != AUTO and settings.get("slice_config"):
        raise InvalidCase(f"convolution: slices {attrs['slices']} and slice_config state the same: give one of them")


def _cut(call: CuttableCall) -> Axes | None:
    """Several maps can be cut into fewer; one map into stretches along its first spatial dim, if windows do not overlap.

    A flat tensor has all maps and pixels in one dim, so a stretch of several maps would not be contiguous there.
    """
    (batch, _, *sizes), out = call.map, call.results[0][2:]
    several = batch > 1
    units, step, out_step = (batch, 1, 1) if several else _stretches(call)
    first = 0 if several else 1  # spatial dim of which a unit has all
    flat: Dims = (None, None, (0, step * math.prod(sizes[first:])), None)
    flat_result: Dims = (None, None, (0, out_step * math.prod(out[first:])), None)
    rest: Dims = (None,) * (len(sizes) - 1)

    def channels_last(size: int) -> Dims:
        return ((0, 1), None, *rest, None) if several else (None, (0, size), *rest, None)

    written = call.of_map((0, 1), None) if several else call.of_map(None, None, (0, step))
    placed = flat if call.device[0] == flat_nhwc(call.map) else channels_last(step)
    result = flat_result if len(sizes) < 3 else channels_last(out_step)
    uncut = call.inputs[1:]
    return call.axes(
        [result],
        {0: units},
        written=[written, *((None,) * len(shape) for shape in uncut)],
        placed=[placed, *[()] * len(uncut)],
    )


def _stretches(call: CuttableCall) -> tuple[int, int, int]:
    """Returns into how many stretches one map can be cut, and the rows of each before and after; 1 where windows overlap."""
    rows, kernel, dims = call.map[2], call.inputs[1][2], len(call.map) - 2
    stride, padding, dilation, extra = (_spatial(call.attrs, name, dims)[0] for name in SPATIAL)
    reach = dilation * (kernel - 1) + 1
    if call.attrs["transposed"]:
        return (rows, 1, stride) if not padding and reach + extra == stride else (1, 1, 1)
    apart = not padding and reach <= stride and rows % stride == 0
    return (rows // stride, stride, 1) if apart else (1, 1, 1)


def _same_size(shape: Shape) -> Sample:
    """Builds the sweep's call: a kernel of 3 in each spatial dim that keeps size and channels."""
    channels, dims = (shape[1] if len(shape) > 1 else 1), len(shape) - 2
    return Sample((shape, (channels, channels, *[3] * dims), (channels,)), {"padding": [1] * dims})


CONVOLUTION = OperatorInfo(
    names=("convolution", "conv2d", "Conv2d", "conv1d", "conv3d"),
    aten=("aten.convolution.default", "aten.conv2d.default", "aten.conv1d.default", "aten.conv3d.default"),
    operands=("input", "weight", "bias?"),
    ttnn="ttnn.conv2d, conv1d, conv_transpose2d, experimental.conv3d",
    call=_convolve,
    torch=_torch,
    infer=_result_shape,
    attrs={
        "stride": Attr("int|ints", 1),
        "padding": Attr("int|ints", 0),
        "dilation": Attr("int|ints", 1),
        "transposed": Attr("bool", False),
        "output_padding": Attr("int|ints", 0),
        "groups": Attr("int", 1),
        WEIGHTS_DTYPE: SAME_DTYPE,
        **TUNING,
    },
    place=_place,
    sample=_same_size,
    dims=DimRule(cut=_cut),
    traits=Traits(
        nhwc=MapResult.FLAT,
        l1_small_bytes=DEFAULT_L1_SMALL_BYTES,
        output_dtypes=_result_dtypes,
        result_form=_form,
        row_alignment=TILE_EDGE,  # conv3d writes whole tiles of channels, of which a caller sees those it requested
        temporaries=True,
        moves_output=True,
        function=_function,
        merged_settings=("conv_config",),
        check_settings=_check_settings,
        own_shards=_own_shards,
        weights=(1, 2),
    ),
    limitations=(
        Limitation(
            "TTNN has no transposed convolution over 1 or 3 dims",
            when=lambda shapes, attrs: attrs["transposed"] and len(shapes[0]) != MAP,
            taken=True,
        ),
        Limitation("TTNN convolves floating-point dtypes only", dtypes=INTEGERS),
    ),
)

CONV_TRANSPOSE2D = replace(
    CONVOLUTION,
    names=("conv_transpose2d", "ConvTranspose2d"),
    aten=("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"),
    ttnn="ttnn.conv_transpose2d",
    attrs={**CONVOLUTION.attrs, "transposed": Attr("bool", True)},
)

OPERATORS: tuple[OperatorInfo, ...] = (CONVOLUTION, CONV_TRANSPOSE2D)
