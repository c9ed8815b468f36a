"""Comparisons, logic, and choice by a mask. TTNN has no bool: a mask is a tensor of 0 and 1 in the dtype of its operands."""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.core.case import Case
from ssinghal.core.tensors import DType, Layout, Shape, TensorSpec
from ssinghal.operators.elementwise_base import BY_ELEMENT, binary, comparison_program, equal_shapes_program, unary
from ssinghal.operators.operator_info import (
    Attr,
    Attrs,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    broadcast,
    operand_spec,
    tiles_twice,
)


def comparison(name: str) -> OperatorInfo:
    """Declares a comparison of two tensors, or of a tensor and a number, as a listed shape is compared."""
    promoted = {DType.UINT8: DType.UINT16}
    return binary((name,), name, number=0.0, program=comparison_program, whole=True, promoted=promoted)


def logical(name: str) -> OperatorInfo:
    """Declares a logical operator. Its kernel converts each operand to 0 and 1 first, in separate buffers."""
    overloads = (f"aten.{name}.default", f"aten.{name}_.default")
    return binary((name,), name, overloads=overloads, takes_number=False, program=None, whole=True)


def _placed_alike(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places all operands in the case's dtype, masks too."""
    return [operand_spec(case, shape) for shape in shapes]


MASKS = (
    *map(comparison, ("eq", "ne", "gt", "ge", "lt", "le")),
    *map(logical, ("logical_and", "logical_or", "logical_xor")),
    unary(
        ("logical_not",),
        torch=lambda t, tensors, a: t.logical_not(tensors[0]).to(tensors[0].dtype),
        traits=Traits(program=tiles_twice, whole=True),
        limitations=(Limitation("ttnn.logical_not does not take uint8", dtypes=(DType.UINT8,)),),
    ),
    OperatorInfo(
        names=("where",),
        aten=("aten.where.self",),
        operands=("condition", "self", "other"),
        ttnn="ttnn.where",
        call=lambda c: c.ttnn.where(*c.inputs, **c.out),
        torch=lambda t, tensors, a: t.where(tensors[0] != 0, tensors[1], tensors[2]),
        infer=broadcast,
        place=_placed_alike,
        sample=lambda shape: Sample((shape, shape, shape), {}),
        dims=BY_ELEMENT,
        traits=Traits(program=equal_shapes_program, whole=True, untyped=(0,)),
        limitations=(Limitation("ttnn.where takes tile layout only", layouts=(Layout.ROW_MAJOR,)),),
    ),
    OperatorInfo(
        names=("masked_fill",),
        aten=("aten.masked_fill.Scalar",),
        operands=("self", "mask"),
        ttnn="ttnn.where",
        call=lambda c: c.ttnn.where(c.inputs[1], c.attrs["value"], c.inputs[0], **c.out),
        torch=lambda t, tensors, a: t.masked_fill(tensors[0], tensors[1] != 0, a["value"]),
        infer=broadcast,
        attrs={"value": Attr("float")},
        place=_placed_alike,
        sample=lambda shape: Sample((shape, shape), {"value": 0.0}),
        dims=BY_ELEMENT,
        traits=Traits(program=equal_shapes_program, whole=True),
        limitations=(Limitation("ttnn.where puts no number into 8- and 16-bit integers", dtypes=(DType.UINT8, DType.UINT16)),),
    ),
)
