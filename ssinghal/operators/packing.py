"""Operators that put the elements of a map or a matrix into another order or layout, as ports call them around convolutions.

Their shapes are as TTNN has them: channels last for ``fold``, [1, 1, C, H*W] and [1, 1, H*W, C] for the conversions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, ceil_div
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    OperatorInfo,
    Traits,
    first_request,
    operand_spec,
    output_request,
)

# fold ---------------------------------------------------------------------------------------------------------------------


def _padding(attrs: Attrs) -> tuple[int, int, int, int, int, int]:
    """Returns rows above and below, columns left and right, channels before and after, from TTNN's forms of 0, 2, 4 or 6."""
    given = list(attrs["padding"])
    if len(given) not in (0, 2, 4, 6) or any(n < 0 for n in given):
        raise InvalidCase(f"fold: padding {given}: expected 2, 4 or 6 numbers from 0 on (rows, columns, channels)")
    if len(given) == 2:
        given = [given[0], given[0], given[1], given[1]]
    top, bottom, left, right, front, back = given + [0] * (6 - len(given))
    return top, bottom, left, right, front, back


def _fold_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """[N, H, W, C] becomes [N, H/s, W/t, C*s*t]; as transposes TTNN takes [N, C, H, W] for the same result."""
    (shape,), rows, columns = shapes, attrs["stride_h"], attrs["stride_w"]
    if len(shape) != 4 or rows < 1 or columns < 1:
        raise InvalidCase(f"fold of {list(shape)}, strides {rows} and {columns}: expected rank 4 and strides from 1 on")
    top, bottom, left, right, front, back = _padding(attrs)
    transposed = attrs["use_transpose_as_fold"]
    batch, height, width, channels = (shape[0], shape[2], shape[3], shape[1]) if transposed else shape
    height, width, channels = height + top + bottom, width + left + right, channels + front + back
    if height % rows or width % columns:
        raise InvalidCase(f"fold: a map of {height}x{width} (with its padding) is no multiple of {rows}x{columns}")
    folded = (height // rows, width // columns, channels * rows * columns)
    return [(1, 1, batch * folded[0] * folded[1], folded[2]) if attrs["collapse_output"] else (batch, *folded)]


def _is_transposed(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return bool(attrs["use_transpose_as_fold"])


def _leaves_tiles(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """The result then has the surplus rows and columns, unless the operand is sharded."""
    top, bottom, left, right, *_ = _padding(attrs)
    (shape,) = shapes
    sizes = (shape[2] + top + bottom, shape[3] + left + right)
    return _is_transposed(shapes, attrs) and not attrs["collapse_output"] and any(size % TILE_EDGE for size in sizes)


def _place_fold(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """TTNN takes a memory for the result as transposes only; else it is where the operand is."""
    target = output_request(case)
    if not attrs["use_transpose_as_fold"] and target is not None and target != first_request(case):
        raise InvalidCase(f"fold: output memory {target}: TTNN takes one with use_transpose_as_fold only; expected ttnn")
    return [operand_spec(case, shapes[0])]


def _fold(c: Call) -> Any:
    transposed = c.attrs["use_transpose_as_fold"]
    options: dict[str, Any] = {"use_transpose_as_fold": True} if transposed else {}
    if transposed and "memory_config" in c.out:
        options["override_memory_config"] = c.out["memory_config"]
    if c.attrs["collapse_output"]:
        options["collapse_output"] = True
    if any(_padding(c.attrs)):
        options["padding"] = list(_padding(c.attrs))
    return c.ttnn.fold(c.inputs[0], c.attrs["stride_h"], c.attrs["stride_w"], **options)


def _torch_fold(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    x = tensors[0].permute(0, 2, 3, 1) if attrs["use_transpose_as_fold"] else tensors[0]
    top, bottom, left, right, front, back = _padding(attrs)
    x = torch.nn.functional.pad(x, (front, back, left, right, top, bottom))
    (result,) = _fold_shape([tuple(x.shape)], {**attrs, "use_transpose_as_fold": False, "padding": []})
    rows, columns = attrs["stride_h"], attrs["stride_w"]
    batch, height, width, channels = x.shape
    parts = x.reshape(batch, height // rows, rows, width // columns, columns, channels)
    return parts.permute(0, 1, 3, 2, 4, 5).reshape(result)


# rows and tiles -----------------------------------------------------------------------------------------------------------


def _unpadded_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (shape,), ends = shapes, list(attrs["output_tensor_end"])
    padded = TensorSpec(shape).padded_shape
    if len(ends) != len(shape) or any(not 0 <= end < size for end, size in zip(ends, padded, strict=True)):
        raise InvalidCase(
            f"untilize_with_unpadding of {list(shape)}: output_tensor_end {ends} is no last element of {list(padded)}"
        )
    return [tuple(end + 1 for end in ends)]


def _folded_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    """Elements that TTNN's kernel does not fold become bfloat16."""
    return (None if dtype in (DType.FLOAT32, DType.UINT16) else DType.BFLOAT16,)


def _as_rows(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    """Rows hold no block floats: they become bfloat16."""
    return (DType.BFLOAT16 if dtype in BLOCK_FLOATS else None,)


def _memory_alone(c: Call) -> dict[str, Any]:
    """Returns the requested memory; the function has no dtype of the result."""
    return {name: value for name, value in c.out.items() if name == "memory_config"}


def _padded_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """The logical shape stays: only the stored one has the requested size."""
    (shape,), target = shapes, list(attrs["output_tensor_shape"])
    if len(target) != len(shape) or any(size < least for size, least in zip(target, shape, strict=True)):
        raise InvalidCase(f"tilize_with_val_padding of {list(shape)}: output_tensor_shape {target} is no shape to pad it to")
    if any(size % TILE_EDGE for size in target[-2:]):
        raise InvalidCase(
            f"tilize_with_val_padding: output_tensor_shape {target} has no whole tiles of {TILE_EDGE}x{TILE_EDGE}"
        )
    if tuple(target) != TensorSpec(shape).padded_shape:
        raise InvalidCase(
            f"tilize_with_val_padding of {list(shape)}: only {list(TensorSpec(shape).padded_shape)} is known exactly"
        )
    return [shape]


def _place_rows(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    return [operand_spec(case, shape, layout=Layout.ROW_MAJOR) for shape in shapes]


def _place_tiles(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    return [operand_spec(case, shape, layout=Layout.TILE) for shape in shapes]


def _same_values(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    return tensors[0].clone()


def _cut_values(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    return tensors[0][tuple(slice(0, end + 1) for end in attrs["output_tensor_end"])].clone()


# channels first and last --------------------------------------------------------------------------------------------------

ROW_CHANNELS = 8  # to whose multiple TTNN pads the channels of a row in L1: 16 B of elements of two bytes


def _hwc_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """[1, B, C, H*W] becomes [1, 1, B*H*W, C], the channels padded to rows of whole 16 B."""
    (shape,) = shapes
    if len(shape) != 4 or shape[0] != 1:
        raise InvalidCase(f"convert_to_hwc takes [1, batch, channels, pixels], not {list(shape)}")
    return [(1, 1, shape[1] * shape[3], ceil_div(shape[2], ROW_CHANNELS) * ROW_CHANNELS)]


def _chw_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (shape,) = shapes
    if len(shape) != 4 or shape[:2] != (1, 1):
        raise InvalidCase(f"convert_to_chw takes [1, 1, pixels, channels], not {list(shape)}")
    if shape[3] > TILE_EDGE or shape[2] % TILE_EDGE:
        raise InvalidCase(f"convert_to_chw of {list(shape)}: expected at most 32 channels, and a multiple of 32 pixels")
    return [(1, 1, shape[3], shape[2])]


def _other_rows(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return bool(shapes[0][2] % 16)


def _torch_hwc(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    x = tensors[0].permute(0, 1, 3, 2)
    (result,) = _hwc_shape([tuple(tensors[0].shape)], attrs)
    return torch.nn.functional.pad(x, (0, result[3] - x.shape[3])).reshape(result)


NOT_BFLOAT16 = tuple(dtype for dtype in DType if dtype is not DType.BFLOAT16)
SHARDED_MAPS = Traits(output_layout=Layout.ROW_MAJOR, moves_output=True, ttnn_places=True)


PACKINGS = (
    OperatorInfo(
        names=("fold",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.fold",
        call=_fold,
        torch=_torch_fold,
        infer=_fold_shape,
        attrs={
            "stride_h": Attr("int"),
            "stride_w": Attr("int"),
            "use_transpose_as_fold": Attr("bool", False),
            "padding": Attr("ints", ()),
            "collapse_output": Attr("bool", False),
        },
        place=_place_fold,
        dims=DimRule(),
        traits=Traits(
            temporaries=True,
            ttnn_places=True,
            moves_output=True,
            output_layout=Layout.ROW_MAJOR,
            output_dtypes=_folded_dtypes,
        ),
        limitations=(
            Limitation(
                "ttnn.fold as transposes does not merge the dims of its result",
                when=lambda shapes, attrs: attrs["use_transpose_as_fold"] and attrs["collapse_output"],
            ),
            Limitation("ttnn.fold as transposes takes row-major maps only", (Layout.TILE,), when=_is_transposed),
            Limitation("ttnn.fold as transposes takes bfloat16 only", dtypes=NOT_BFLOAT16, when=_is_transposed),
            Limitation(
                "ttnn.fold as transposes pads an interleaved map to whole tiles first",
                when=_leaves_tiles,
                interleaved=True,
                taken=True,
            ),
        ),
    ),
    OperatorInfo(
        names=("untilize_with_unpadding",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.untilize_with_unpadding",
        call=lambda c: c.ttnn.untilize_with_unpadding(c.inputs[0], list(c.attrs["output_tensor_end"]), **_memory_alone(c)),
        torch=_cut_values,
        infer=_unpadded_shape,
        attrs={"output_tensor_end": Attr("ints")},
        place=_place_tiles,
        dims=DimRule(),
        traits=Traits(output_layout=Layout.ROW_MAJOR, output_dtypes=_as_rows, moves_output=True),
        limitations=(Limitation("TTNN untilizes no bfloat4_b to shorter rows", dtypes=(DType.BFLOAT4_B,)),),
    ),
    OperatorInfo(
        names=("tilize_with_val_padding",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.tilize_with_val_padding",
        call=lambda c: c.ttnn.tilize_with_val_padding(
            c.inputs[0], list(c.attrs["output_tensor_shape"]), c.attrs["pad_value"], **c.out
        ),
        torch=_same_values,
        infer=_padded_shape,
        attrs={"output_tensor_shape": Attr("ints"), "pad_value": Attr("float", 0.0)},
        place=_place_rows,
        dims=DimRule(),
        traits=Traits(output_layout=Layout.TILE),
        limitations=(Limitation("TTNN tilizes no uint8", dtypes=(DType.UINT8,)),),
    ),
    OperatorInfo(
        names=("tilize_with_zero_padding",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.tilize_with_zero_padding",
        call=lambda c: c.ttnn.tilize_with_zero_padding(c.inputs[0], **c.out),
        torch=_same_values,
        place=_place_rows,
        dims=DimRule(),
        traits=Traits(output_layout=Layout.TILE),
        limitations=(Limitation("TTNN tilizes no uint8", dtypes=(DType.UINT8,)),),
    ),
    OperatorInfo(
        names=("convert_to_hwc",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.experimental.convert_to_hwc",
        call=lambda c: c.ttnn.experimental.convert_to_hwc(c.inputs[0], **c.out),
        torch=_torch_hwc,
        infer=_hwc_shape,
        place=_place_rows,
        dims=DimRule(),
        traits=SHARDED_MAPS,
        limitations=(
            Limitation(
                "the padding of the result's rows is known for elements of two bytes only",
                dtypes=(DType.FLOAT32, DType.INT32, DType.UINT32, DType.UINT8),
                when=_other_rows,
                taken=True,
            ),
        ),
    ),
    OperatorInfo(
        names=("convert_to_chw",),
        aten=(),
        operands=("input",),
        ttnn="ttnn.experimental.convert_to_chw",
        call=lambda c: c.ttnn.experimental.convert_to_chw(c.inputs[0]),
        torch=lambda torch, tensors, attrs: tensors[0].transpose(2, 3).contiguous(),
        infer=_chw_shape,
        place=_place_tiles,
        dims=DimRule(),
        traits=replace(SHARDED_MAPS, output_fixed=True),
    ),
)
