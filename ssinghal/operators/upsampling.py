"""Upsampling, and sampling at given points: maps are written NCHW, as in torch, and go to the device channels-last."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES, Case
from ssinghal.core.tensors import MAX_DIM, TILE_EDGE, BufferType, DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory, is_unchanged
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, ResizableCall, Sizes, along
from ssinghal.operators.operator_info import (
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
    to_nchw,
    to_nhwc,
)
from ssinghal.operators.resizing import scaled, spatial_dims

AXES = ("d", "h", "w")
_WORDS = {2: "two", 3: "three"}


def need_rank(name: str, shape: Shape, rank: int) -> Shape:
    if len(shape) != rank:
        raise InvalidCase(f"{name}: {list(shape)} has rank {len(shape)}; expected {rank}: batch, channels and the map")
    return shape


def fitted(shape: Shape, rank: int) -> Shape:
    """Returns a listed shape as a batch of maps: missing dims are 1 in front, surplus ones are folded into the last."""
    if len(shape) <= rank:
        return (1,) * (rank - len(shape)) + shape
    return (*shape[: rank - 1], math.prod(shape[rank - 1 :]))


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _scaled(attrs: Attrs, dims: int) -> list[float | None]:
    """Returns the call's scales, of either overload, one for each spatial dim."""
    if not attrs["scale_factors"]:
        return [attrs[f"scales_{axis}"] for axis in AXES[-dims:]]
    if len(attrs["scale_factors"]) != dims:
        raise InvalidCase(f"upsample: scale_factors {attrs['scale_factors']} are not {_WORDS[dims]} numbers")
    return list(attrs["scale_factors"])


def _scaled_size(size: int, scale: float) -> int:
    if not 0 < size * scale <= MAX_DIM:
        raise InvalidCase(f"upsample: {size} times {scale} is outside 1..{MAX_DIM}")
    return int(size * scale)


def _infer_map(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return _infer_upsample([need_rank("upsample", shapes[0], 4)], attrs)


def _infer_volume(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return _infer_upsample([need_rank("upsample_nearest3d", shapes[0], 5)], attrs)


def _infer_upsample(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    n, c, *spatial = shapes[0]
    scales = zip(spatial, _scaled(attrs, len(spatial)), strict=True)
    scaled = [None if scale is None else _scaled_size(size, scale) for size, scale in scales]
    sizes = list(attrs["output_size"] or scaled)
    if None in sizes or len(sizes) != len(spatial):
        raise InvalidCase(f"upsample needs output_size or scale_factors, {_WORDS[len(spatial)]} numbers each")
    if attrs["scale_factors"] and sizes != scaled:
        raise InvalidCase(f"upsample: output_size {sizes} and scale_factors {attrs['scale_factors']} of {spatial} disagree")
    return [(n, c, *sizes)]


def _factors(shape: Shape, attrs: Attrs) -> list[float]:
    """Returns what TTNN multiplies the spatial dims by: the given scales, else the quotients of the sizes."""
    result = _infer_upsample([shape], attrs)[0]
    return [scale or out / size for scale, out, size in zip(_scaled(attrs, len(shape) - 2), result[2:], shape[2:], strict=True)]


def _misses_size(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """TTNN computes the size as a float32 product, rounded down, which can miss the quotient that it was given."""
    result = _infer_upsample(shapes, attrs)[0]
    factors = _factors(shapes[0], attrs)
    sizes = [int(_float32(size * _float32(factor))) for size, factor in zip(shapes[0][2:], factors, strict=True)]
    return sizes != list(result[2:])


def _scales_unevenly(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return any(factor != int(factor) for factor in _factors(shapes[0], attrs))


def _place_rows(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Row-major, whatever the case's layout: TTNN upsamples tiles only where no dim is padded. So block floats are invalid."""
    return [operand_spec(case, to_nhwc(shapes[0]), layout=Layout.ROW_MAJOR)]


def _size_attrs(dims: int) -> dict[str, Attr]:
    scales = {f"scales_{axis}": Attr("float|none", None) for axis in AXES[-dims:]}
    return {"output_size": Attr("ints|none", None), "scale_factors": Attr("floats|none", None), **scales}


def _resize_output(call: ResizableCall, sizes: Sizes) -> Attrs:
    output = call.attrs.get("output_size")
    if not output:
        return call.attrs
    size = list(output)
    first = spatial_dims(call.case)[0] - (len(size) - 2)
    for dim, to in sizes.items():
        if 0 <= dim - first < len(size):
            size[dim - first] = scaled(call, dim, size[dim - first], to)
    return {**call.attrs, "output_size": size}


def _cut_images(call: CuttableCall) -> Axes | None:
    """Images and channels are independent. On the device: [N, H, W, C]."""
    n, c, *_ = call.inputs[0]
    dims: Dims = ((0, 1), None, None, (1, 1))
    return call.axes([dims], {0: n, 1: c}, placed=[dims])


def _cut_nearest(call: CuttableCall) -> Axes | None:
    """Rows can be cut too, where each is repeated as often as every other."""
    n, c, h, _ = call.inputs[0]
    oh = call.results[0][2]
    if oh % h:
        return _cut_images(call)

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        output = attrs.get("output_size")
        return attrs if output is None or 2 not in sizes else {**attrs, "output_size": [oh // h * sizes[2], output[1]]}

    placed: Dims = ((0, 1), (2, 1), None, (1, 1))
    result: Dims = ((0, 1), (2, oh // h), None, (1, 1))
    return call.axes([result], {0: n, 1: c, 2: h}, placed=[placed], attrs_for=attrs_for)


def upsample(
    mode: str,
    overloads: tuple[str, ...],
    aliases: tuple[str, ...],
    traits: Traits,
    limitations: tuple[Limitation, ...],
    cut: Callable[[CuttableCall], Axes | None],
    **attrs: Attr,
) -> OperatorInfo:
    """Declares upsample_{nearest2d,bilinear2d}; a listed map is doubled."""
    name = f"upsample_{mode}2d"

    def call(c: Call) -> Any:
        factors = _factors(to_nchw(tuple(c.inputs[0].shape)), c.attrs)
        whole = [int(factor) for factor in factors]
        return c.ttnn.upsample(c.inputs[0], whole if whole == factors else factors, mode=mode, **c.out)

    def torch(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        size = _infer_upsample([tuple(tensors[0].shape)], attrs)[0][2:]
        aligned = [attrs["align_corners"]] if "align_corners" in attrs else []
        return getattr(torch.ops.aten, name)(tensors[0], size, *aligned, *_scaled(attrs, 2))

    return OperatorInfo(
        names=(name, *aliases),
        aten=overloads,
        operands=("self",),
        ttnn="ttnn.upsample",
        call=call,
        torch=torch,
        infer=_infer_map,
        attrs={**_size_attrs(2), **attrs},
        place=_place_rows,
        sample=lambda shape: Sample((fitted(shape, 4),), {"scale_factors": [2.0, 2.0]}),
        dims=DimRule(resize=_resize_output, cut=cut),
        traits=traits,
        limitations=(
            Limitation("TTNN takes a factor, whose float32 product misses this size by one", when=_misses_size),
            *limitations,
        ),
    )


# Volumes ------------------------------------------------------------------------------------------------------------------


def _repeat_axes(c: Call) -> Any:
    """Repeats each spatial dim, the first one first, so that the last two, which cost most, are done once."""
    result = c.inputs[0]
    for dim, factor in enumerate(_factors(tuple(result.shape), c.attrs), 2):
        if factor != 1:
            result = c.ttnn.repeat_interleave(result, int(factor), dim, **c.out)
    return in_requested_memory(c, result)


def _nearest_volume(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    size = _infer_upsample([tuple(tensors[0].shape)], attrs)[0][2:]
    return torch.ops.aten.upsample_nearest3d(tensors[0], size, *_scaled(attrs, 3))


def _mapped_volume(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """An upper bound, as for ``repeat_interleave``: the last step maps every tile of the result, the one before no more."""
    return 0 if inputs[0].layout is Layout.ROW_MAJOR or is_unchanged(inputs, outputs) else 2 * outputs[0].num_pages


# At given points ----------------------------------------------------------------------------------------------------------

BILINEAR, ZEROS = 0, 0  # torch's numbers for the modes that TTNN has


def _infer_grid(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    image, grid = need_rank("grid_sampler", shapes[0], 4), shapes[1]
    if len(grid) != 4 or grid[0] != image[0] or grid[3] != 2:
        raise InvalidCase(f"grid_sampler: grid {list(grid)} for maps {list(image)}; expected [{image[0]}, height, width, 2]")
    return [(*image[:2], *grid[1:3])]


def _points(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """A grid [N, H, W, 2] has the batch of the maps; with as many points as pixels it follows their size."""
    image, grid = inputs
    points: Dims = tuple((d, 1) if size == image[d] else None for d, size in zip((0, 2, 3), grid[:3], strict=True))
    return [along(len(image)), (*points, None)]


def _resize_as_nchw(call: ResizableCall, sizes: Sizes) -> Attrs:
    for dim in sizes:
        if dim and call.case.placement.channels_last is False:
            raise call.no(dim, "a grid follows only maps that are written NCHW")
    return call.attrs


def _place_grid(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Both row-major, whatever the case's layout: TTNN takes nothing else."""
    return [operand_spec(case, shape, layout=Layout.ROW_MAJOR) for shape in (to_nhwc(shapes[0]), shapes[1])]


def _grid_sample(c: Call) -> Any:
    return c.ttnn.grid_sample(*c.inputs, mode="bilinear", padding_mode="zeros", align_corners=c.attrs["align_corners"], **c.out)


def _sampled_points(shape: Shape) -> Sample:
    """Builds the sweep's call: as many points as the map has."""
    image = fitted(shape, 4)
    return Sample((image, (image[0], *image[2:], 2)), {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False})


UPSAMPLING = (
    upsample(
        "nearest",
        ("aten.upsample_nearest2d.default", "aten.upsample_nearest2d.vec"),
        ("upsamplenearest2d", "Upsample"),
        Traits(nhwc=MapResult.NHWC, output_layout=Layout.ROW_MAJOR),
        (),
        cut=_cut_nearest,
    ),
    upsample(
        "bilinear",
        ("aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec"),
        ("upsamplebilinear2d",),
        Traits(
            nhwc=MapResult.NHWC,
            l1_small_bytes=DEFAULT_L1_SMALL_BYTES,
            temporaries=True,
            ttnn_output=BufferType.L1,
            moves_output=True,
            output_layout=Layout.ROW_MAJOR,
        ),
        (
            Limitation("TTNN interpolates bfloat16 only", dtypes=(DType.FLOAT32,)),
            Limitation(
                "refused although TTNN takes some: it interpolates in bfloat16, and reads integers as such or rejects them",
                dtypes=INTEGERS,
                taken=True,
            ),
            Limitation(
                f"TTNN interpolates maps whose channels are a multiple of {TILE_EDGE} only",
                when=lambda shapes, attrs: shapes[0][1] % TILE_EDGE != 0,
            ),
            Limitation("TTNN interpolates by whole factors only", when=_scales_unevenly),
            Limitation(
                "TTNN does not align corners: it has no such argument",
                when=lambda shapes, attrs: bool(attrs["align_corners"]),
                taken=True,
            ),
        ),
        cut=_cut_images,
        align_corners=Attr("bool", False),
    ),
    OperatorInfo(
        names=("upsample_nearest3d",),
        aten=("aten.upsample_nearest3d.default", "aten.upsample_nearest3d.vec"),
        operands=("self",),
        ttnn="ttnn.repeat_interleave",
        call=_repeat_axes,
        torch=_nearest_volume,
        infer=_infer_volume,
        attrs=_size_attrs(3),
        sample=lambda shape: Sample((fitted(shape, 5),), {"scale_factors": [1.0, 2.0, 2.0]}, channels_last=False),
        dims=DimRule(resize=_resize_output),
        traits=Traits(alias=is_unchanged, temporaries=True, host_map=_mapped_volume),
        limitations=(Limitation("composed of ttnn.repeat_interleave: whole factors only", when=_scales_unevenly, taken=True),),
    ),
    OperatorInfo(
        names=("grid_sampler", "grid_sample"),
        aten=("aten.grid_sampler.default", "aten.grid_sampler_2d.default"),
        operands=("input", "grid"),
        ttnn="ttnn.grid_sample",
        call=_grid_sample,
        torch=lambda t, tensors, a: t.ops.aten.grid_sampler_2d(*tensors, *a.values()),
        infer=_infer_grid,
        attrs={"interpolation_mode": Attr("int"), "padding_mode": Attr("int"), "align_corners": Attr("bool")},
        place=_place_grid,
        sample=_sampled_points,
        dims=DimRule(_points, resize=_resize_as_nchw),
        traits=Traits(nhwc=MapResult.NHWC, temporaries=True, output_layout=Layout.ROW_MAJOR),
        limitations=(
            Limitation("ttnn.grid_sample takes bfloat16 and float32 only", dtypes=INTEGERS),
            Limitation(
                "ttnn.grid_sample interpolates bilinearly only",
                when=lambda shapes, attrs: attrs["interpolation_mode"] != BILINEAR,
                taken=True,
            ),
            Limitation(
                "ttnn.grid_sample reads zeros outside the map only",
                when=lambda s, attrs: attrs["padding_mode"] != ZEROS,
                taken=True,
            ),
            Limitation(
                f"ttnn.grid_sample takes maps whose channels are a multiple of {TILE_EDGE} only",
                when=lambda shapes, attrs: shapes[0][1] % TILE_EDGE != 0,
            ),
        ),
    ),
)
