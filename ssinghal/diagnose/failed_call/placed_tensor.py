"""Writes a call that places one tensor on the device as a case, where it requests exactly the bytes of TTNN's message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssinghal.catalog.recorded.calls import Member, RecordedCall, RecordedTensor, TorchTensor
from ssinghal.core.case import Case, Placement
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import Board, DType, Layout, Shape, check_shape
from ssinghal.core.verdict import Verdict
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind

_OPERATOR = "place"
_FUNCTIONS = frozenset(
    f"ttnn.{name}"
    for name in ("empty", "zeros", "ones", "full", "rand", "from_torch", "as_tensor", "to_device", "allocate_tensor_on_device")
)


def placed_case(call: RecordedCall, verdict: Verdict, board: Board) -> Case:
    """Returns the case of ``place`` with the tensor that a call puts on the device.

    What the call does not state is TTNN's default for it, which the bytes of the message confirm.

    Raises:
        InvalidCase: it is no such call, states no shape, or requests other bytes.
    """
    if call.function not in _FUNCTIONS:
        raise InvalidCase(f"{call.function} places no tensor by itself")
    values = [*call.args, *call.kwargs.values()]
    shape, dtype, layout = _source(values, call.kwargs)
    memory = next((value for value in values if isinstance(value, MemoryRequest)), MemoryRequest())
    placement = Placement(
        _named(values, "DataType", dtype, dtype_named),
        _named(values, "Layout", layout, lambda name: Layout(name.removesuffix("_layout"))),
        memory.buffer,
        channels_last=False,
        l1_small_bytes=call.l1_small_bytes,
        sharding=memory.sharding,
    )
    case = make_case(_OPERATOR, (shape,), {}, placement)
    (tensor,) = bind(case, board).inputs
    if tensor.allocated_bytes(board) != verdict.total_bytes:
        raise InvalidCase(
            f"{call.function} requests {verdict.total_bytes} B, such a tensor for {tensor.allocated_bytes(board)}"
        )
    return case


def _source(values: list[Any], kwargs: Mapping[str, Any]) -> tuple[Shape, DType, Layout]:
    """Returns the shape, and what dtype and layout are by default: those of a tensor on the host, else TTNN's."""
    for value in values:
        if isinstance(value, TorchTensor):
            return check_shape(value.shape), _dtype_of_torch(value.dtype), Layout.ROW_MAJOR
        if isinstance(value, RecordedTensor) and value.memory is None:
            return value.shape, value.dtype, value.layout
    for value in (kwargs.get("shape"), *values):
        if isinstance(value, (list, tuple)) and value and all(type(size) is int for size in value):
            return check_shape(tuple(value)), DType.BFLOAT16, Layout.ROW_MAJOR
    raise InvalidCase("no shape is among its arguments")


def _dtype_of_torch(name: str) -> DType:
    return dtype_named({"int64": "uint32", "float64": "float32"}.get(name, name))


def _named(values: list[Any], kind: str, default: Any, read: Any) -> Any:
    members: Iterator[str] = (value.name.lower() for value in values if isinstance(value, Member) and value.kind == kind)
    return next(map(read, members), default)
