"""Pooling, and the family it forms with upsampling: maps are written NCHW, as in torch, and go to the device channels-last.

Pools take and return maps as one matrix, [1, 1, N*H*W, C], and keep their window tables in L1_SMALL. They halo-exchange and
reduce in L1: a DRAM operand that is too large for that is cut into slices, an L1 operand is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES, Case
from ssinghal.core.tensors import BufferType, DType, Layout, Shape, TensorSpec, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule
from ssinghal.operators.operator_info import (
    INTEGERS,
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
    pair,
    to_nchw,
)
from ssinghal.operators.upsampling import UPSAMPLING, fitted, need_rank

POOL = Traits(
    nhwc=MapResult.FLAT,
    l1_small_bytes=DEFAULT_L1_SMALL_BYTES,
    temporaries=True,
    ttnn_output=BufferType.L1,
    moves_output=True,
    output_dtypes=(DType.BFLOAT16,),
    output_layout=Layout.ROW_MAJOR,
)
NO_INTEGERS = Limitation(
    "refused although TTNN takes some: its pools compute in bfloat16, and read integers as such or reject them",
    dtypes=INTEGERS,
    taken=True,
)
NO_FLOAT32 = Limitation("TTNN's pools compute in bfloat16; float32 is rejected", dtypes=(DType.FLOAT32,))


def _place_flat(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    return [operand_spec(case, flat_nhwc(shapes[0]))]


def _as_2d(shape: Shape) -> tuple[int, int, int, int]:
    """Returns N, C, H, W of a map as TTNN takes them: a map of rank 3 has one row."""
    n, c, *spatial = shape
    return (n, c, *spatial) if len(spatial) == 2 else (n, c, 1, spatial[0])  # type: ignore[return-value]


def _input_map(case: Case) -> Shape:
    """Returns the operand as NCHW, however it was written."""
    return to_nchw(case.inputs[0]) if case.placement.channels_last is False else case.inputs[0]


def _pool(c: Call, function: str, **options: Any) -> Any:
    """Calls a pool and folds its result.

    Where TTNN cut a DRAM operand into slices it returns the map unfolded, [N, H, W, C], and in DRAM: it is folded here like
    every other result, which moves no data, and moved where the call puts it.
    """
    n, channels, height, width = _as_2d(_input_map(c.case))
    sizes = {"batch_size": n, "input_h": height, "input_w": width, "channels": channels}
    result = getattr(c.ttnn, function)(c.inputs[0], **sizes, **options, **c.out)
    *leading, last = tuple(result.shape)
    if leading[:2] == [1, 1]:
        return result
    return in_requested_memory(c, c.ttnn.reshape(result, (1, 1, math.prod(leading), last)))


# Windows of a given size --------------------------------------------------------------------------------------------------


def window_of(attrs: Attrs) -> dict[str, tuple[int, int]]:
    """Returns kernel, stride (as in torch the kernel by default), padding and dilation, each for both dims."""
    kernel = pair(attrs["kernel_size"])
    return {
        "kernel_size": kernel,
        "stride": pair(attrs["stride"]) if attrs["stride"] else kernel,
        "padding": pair(attrs["padding"]),
        "dilation": pair(attrs.get("dilation", 1)),
    }


def _windows(size: int, *, kernel_size: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Returns torch's number of windows along one dim. InvalidCase for what torch rejects (TTNN crashes on some of it)."""
    if min(kernel_size, stride, dilation) < 1:
        raise InvalidCase(f"pool: kernel {kernel_size}, stride {stride}, dilation {dilation}; expected at least 1 of each")
    if not 0 <= padding <= kernel_size // 2:
        raise InvalidCase(f"pool: padding {padding}; expected 0 to {kernel_size // 2}, half of kernel {kernel_size}")
    reach = dilation * (kernel_size - 1) + 1
    room = size + 2 * padding - reach
    if room < 0:
        raise InvalidCase(f"pool: a window of {reach} is longer than {size} with padding {padding}")
    windows = (ceil_div(room, stride) if ceil_mode else room // stride) + 1
    # the last window of ceil_mode must start inside the map or its left padding
    return windows - 1 if ceil_mode and (windows - 1) * stride >= size + padding else windows


def _infer_pool(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    n, c, *spatial = need_rank("pool", shapes[0], 4)
    window = window_of(attrs)
    along = [{name: pair[i] for name, pair in window.items()} for i in range(2)]
    return [(n, c, *(_windows(size, **each, ceil_mode=attrs["ceil_mode"]) for size, each in zip(spatial, along, strict=True)))]


def _cut_images(call: CuttableCall) -> Axes | None:
    """Images and channels are independent. On the device the map is one matrix, [1, 1, N*H*W, C]."""
    n, c, h, w = call.inputs[0]
    oh, ow = call.results[0][2:]
    return call.axes([(None, None, (0, oh * ow), (1, 1))], {0: n, 1: c}, placed=[(None, None, (0, h * w), (1, 1))])


def _sample_pool(shape: Shape) -> Sample:
    """Builds ResNet's first pool."""
    return Sample((fitted(shape, 4),), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]})


WINDOW_ATTRS = {
    "kernel_size": Attr("int|ints"),
    "stride": Attr("int|ints", []),
    "padding": Attr("int|ints", 0),
    "ceil_mode": Attr("bool", False),
}


def _max_pool(c: Call) -> Any:
    return _pool(c, "max_pool2d", **{k: list(v) for k, v in window_of(c.attrs).items()}, ceil_mode=c.attrs["ceil_mode"])


def _avg_pool(c: Call) -> Any:
    window = {k: list(v) for k, v in window_of(c.attrs).items() if k != "dilation"}
    options = {name: c.attrs[name] for name in ("ceil_mode", "count_include_pad", "divisor_override")}
    return _pool(c, "avg_pool2d", **window, **options)


# A given number of windows ------------------------------------------------------------------------------------------------


def _output_sizes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    sizes = attrs["output_size"]
    listed = (sizes,) * rank if isinstance(sizes, int) else tuple(sizes)
    if len(listed) != rank:
        raise InvalidCase(f"adaptive pool: output_size {list(listed)} for {rank} spatial dims")
    return listed


def _is_uneven(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Returns whether torch's windows differ in size.

    TTNN's have one size and stride, and may reach over both ends of the map by half a missing element. Torch's differ unless
    the length divides up to a remainder of 1 on either side (measured for all lengths up to 40).
    """
    spatial = shapes[0][2:]
    return any(
        size % windows not in (0, 1, windows - 1)
        for size, windows in zip(spatial, _output_sizes(attrs, len(spatial)), strict=True)
    )


def _is_global(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Returns whether there is one window: TTNN then averages without windows, and float32 too."""
    spatial = len(shapes[0]) - 2
    return _output_sizes(attrs, spatial) == (1,) * spatial


def _average_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    return (DType.FLOAT32 if dtype is DType.FLOAT32 and _is_global(shapes, attrs) else DType.BFLOAT16,)


NO_FLOAT32_WINDOWS = replace(NO_FLOAT32, when=lambda shapes, attrs: not _is_global(shapes, attrs))


def adaptive(kind: str, spatial_dims: int, overloads: tuple[str, ...], *aliases: str) -> OperatorInfo:
    """Declares adaptive_{avg,max}_pool{1,2}d.

    One-dimensional maps run as maps of one row; max pools return their values alone.
    """
    name = f"adaptive_{kind}_pool{spatial_dims}d"
    function = f"adaptive_{kind}_pool2d"

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        n, c, *_ = need_rank(name, shapes[0], 2 + spatial_dims)
        return [(n, c, *_output_sizes(attrs, spatial_dims))]

    def call(c: Call) -> Any:
        sizes = _output_sizes(c.attrs, spatial_dims)
        return _pool(c, function, output_size=[1, *sizes][-2:])

    def torch(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        return getattr(torch.nn.functional, name)(tensors[0], _output_sizes(attrs, spatial_dims))

    return OperatorInfo(
        names=(name, *aliases),
        aten=overloads,
        operands=("self",),
        ttnn=f"ttnn.{function}",
        call=call,
        torch=torch,
        infer=infer,
        attrs={"output_size": Attr("int|ints")},
        place=_place_flat,
        sample=lambda shape: Sample((fitted(shape, 2 + spatial_dims),), {"output_size": [1] * spatial_dims}),
        dims=DimRule(),
        traits=replace(POOL, output_dtypes=_average_dtypes) if kind == "avg" else POOL,
        limitations=(
            NO_INTEGERS,
            NO_FLOAT32_WINDOWS if kind == "avg" else NO_FLOAT32,
            Limitation("TTNN's adaptive pools have windows of one size; torch's would differ here", when=_is_uneven),
        ),
    )


OPERATORS = (
    OperatorInfo(
        names=("max_pool2d", "maxpool2d", "MaxPool2d"),
        aten=("aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"),
        operands=("self",),
        ttnn="ttnn.max_pool2d",
        call=_max_pool,
        torch=lambda t, tensors, a: t.ops.aten.max_pool2d(tensors[0], *window_of(a).values(), a["ceil_mode"]),
        infer=_infer_pool,
        attrs={**WINDOW_ATTRS, "dilation": Attr("int|ints", 1)},
        place=_place_flat,
        sample=_sample_pool,
        dims=DimRule(cut=_cut_images),
        traits=POOL,
        limitations=(NO_INTEGERS, NO_FLOAT32),
    ),
    OperatorInfo(
        names=("avg_pool2d", "avgpool2d", "AvgPool2d"),
        aten=("aten.avg_pool2d.default",),
        operands=("self",),
        ttnn="ttnn.avg_pool2d",
        call=_avg_pool,
        torch=lambda t, tensors, a: t.ops.aten.avg_pool2d(
            tensors[0],
            *list(window_of(a).values())[:3],
            a["ceil_mode"],
            a["count_include_pad"],
            a["divisor_override"],
        ),
        infer=_infer_pool,
        attrs={**WINDOW_ATTRS, "count_include_pad": Attr("bool", True), "divisor_override": Attr("int|none", None)},
        place=_place_flat,
        sample=_sample_pool,
        dims=DimRule(cut=_cut_images),
        traits=POOL,
        limitations=(NO_INTEGERS, NO_FLOAT32),
    ),
    adaptive("avg", 2, ("aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default"), "AdaptiveAvgPool2d"),
    adaptive("avg", 1, ("aten.adaptive_avg_pool1d.default",), "AdaptiveAvgPool1d"),
    adaptive("max", 2, ("aten.adaptive_max_pool2d.default",), "AdaptiveMaxPool2d"),
    adaptive("max", 1, ("aten.adaptive_max_pool1d.default",), "AdaptiveMaxPool1d"),
    *UPSAMPLING,
)
