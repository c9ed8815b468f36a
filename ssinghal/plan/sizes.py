"""Computes the sizes of weights and activations on the device from their shapes alone."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import MAX_RANK, TILE_EDGE, TILE_ELEMENTS, DType, Layout, Shape, TensorSpec, round_up
from ssinghal.operators.operator_info import PLACED_DTYPES
from ssinghal.plan.aliasing import CONVOLUTIONS, MAP_RANK, NORMS, TRANSPOSED_CONVOLUTIONS, Sharing, name_of

_WEIGHT_OF_PRODUCTS = {"linear": "weight", "addmm": "mat2", "matmul": "other", "bmm": "mat2", "mm": "mat2"}
_COMPLEX = frozenset({"complex64", "complex128"})
_WIDE = _COMPLEX | {"float64"}


@cache
def tiles(shape: Shape, dtype: str) -> TensorSpec | None:
    """Returns a tensor in tiles in DRAM with TTNN's dtype for torch's (bool: a bfloat16 mask; complex: pairs).

    None without elements. Leading dims beyond TTNN's maximum rank are joined, which adds no padding.
    """
    if 0 in shape:
        return None
    if dtype in _COMPLEX:
        shape = (*shape, 2)
    if len(shape) > MAX_RANK:
        shape = (math.prod(shape[:-2]), *shape[-2:])
    return TensorSpec(shape or (1,), _placed(dtype))


def channels_last(value: Value) -> TensorSpec | None:
    """Returns a map [N, C, ...] as tiles of [1, 1, N*H*W, C]; an input image as row-major rows."""
    spec = tiles((1, 1, value.shape[0] * math.prod(value.shape[2:]), value.shape[1]), value.dtype)
    return replace(spec, layout=Layout.ROW_MAJOR) if spec and value.kind is ValueKind.INPUT else spec


def in_rows(value: Value) -> TensorSpec | None:
    """Returns a value with dims as tiles of [1, 1, all but the last dim, last dim]."""
    return tiles((1, 1, math.prod(value.shape[:-1]), value.shape[-1]), value.dtype)


def least_bytes(shape: Shape, dtype: str) -> int:
    """Returns the bytes of the elements alone, each float as bfloat16."""
    return math.prod(shape) * (DType.BFLOAT16 if "float" in dtype else _placed(dtype)).tile_bytes // TILE_ELEMENTS


def _placed(dtype: str) -> DType:
    return DType.FLOAT32 if dtype in _WIDE else PLACED_DTYPES.get(dtype, DType.BFLOAT16)


class Resident(NamedTuple):
    """A weight or constant with its shape on the device. ``is_weight``: a policy's dtype of weights applies to it."""

    value: Value
    shape: Shape
    is_weight: bool

    def spec(self, weights: DType | None) -> TensorSpec | None:
        """Returns it in tiles."""
        spec = tiles(self.shape, self.value.dtype)
        return replace(spec, dtype=weights) if spec is not None and weights is not None and self.is_weight else spec

    def least_bytes(self, weights: DType | None) -> int:
        """Returns the bytes of its elements."""
        if weights is None or not self.is_weight:
            return least_bytes(self.shape, self.value.dtype)
        return math.prod(self.shape) * weights.tile_bytes // TILE_ELEMENTS


def resident_shapes(trace: Trace, sharing: Sharing, *, folds: bool, padded: bool) -> list[Resident]:
    """Returns each weight or constant with its shape on the device, once for each different shape.

    A convolution's weight is a matrix of kernel positions x channels, dense over its groups; vectors are one row. With
    ``folds``, a batch norm after a convolution leaves a bias if that has none; else its four vectors are [1, C, 1, 1] each.
    With ``padded``, the channels of each position of a conv3d are in complete tiles, as TTNN needs them.
    """
    shapes: dict[tuple[int, Shape, bool], None] = {}
    for number, step in enumerate(trace.steps):
        conv = sharing.folded.get(number) if folds else None
        for name, operand in step.operands.items():
            if conv is not None and (name != "bias" or conv.operands.get("bias") is not None):
                continue
            for value in operand if isinstance(operand, tuple) else (operand,):
                if value is not None and trace.values[value].is_resident:
                    shape = trace.values[value].shape
                    is_bias = conv is not None
                    placed = shape if is_bias else _resident_shape(step, name, shape, padded)
                    shapes[value, placed, is_bias or _is_weight(trace, step, name)] = None
    return [Resident(trace.values[value], _as_row(shape), is_weight) for value, shape, is_weight in shapes]


def _is_weight(trace: Trace, step: Step, argument: str) -> bool:
    """Returns whether TTNN takes this operand in a dtype of weights: see ``ResidentWeights.dtype_of``."""
    operator, operand = name_of(step), step.operands[argument]
    if not isinstance(operand, int) or "float" not in trace.values[operand].dtype:
        return False
    if operator in CONVOLUTIONS | TRANSPOSED_CONVOLUTIONS:
        weight = step.operands["weight"]
        return isinstance(weight, int) and len(trace.values[weight].shape) <= MAP_RANK
    return argument == _WEIGHT_OF_PRODUCTS.get(operator)


def _resident_shape(step: Step, argument: str, shape: Shape, padded: bool) -> Shape:
    operator = name_of(step)
    if operator in NORMS:
        return (1, shape[0], 1, 1)
    if operator in CONVOLUTIONS | TRANSPOSED_CONVOLUTIONS and argument == "weight" and len(shape) > 2:
        groups = step.args.get("groups", 1)
        if operator in TRANSPOSED_CONVOLUTIONS or step.args.get("transposed"):
            channels, out = shape[0], shape[1] * groups
        else:
            channels, out = shape[1] * groups, shape[0]
        stored = round_up(channels, TILE_EDGE) if padded and len(shape) > MAP_RANK else channels
        return (1, 1, math.prod(shape[2:]) * stored, out)
    return shape


def _as_row(shape: Shape) -> Shape:
    """Returns the shape of a vector as one row of tiles; other shapes stay."""
    return (1, 1, 1, *shape) if len(shape) == 1 else shape
