"""Carries what an operation's tensors have of their own into its case: dtype, layout and memory of each operand and the result.

A case states one dtype, layout and memory for all tensors, and what differs for single ones. The first operand's are the
case's; every other tensor is compared with what the case would put on the device by itself, and the differences are stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ssinghal.core.case import AS_CASE, Case, OperandPlacement, OutputMemory
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.tensors import BufferType, Layout, Shape, TensorSpec, format_shape
from ssinghal.diagnose.model import MlirValue
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import WEIGHTS_DTYPE


def placed(case: Case, operands: Sequence[MlirValue], results: Sequence[MlirValue] = (), prepared: Sequence[int] = ()) -> Case:
    """Returns ``case``, which is placed as its first operand, with what the other tensors of the operation have of their own.

    ``operands``: of known type, in the order of the case. ``prepared``: positions of operands in a form that a compiler made
    of the case's; only their dtype is carried.

    Raises:
        InvalidCase: a tensor has another shape than in the case, is in l1_small, or in shards that the text does not have.
    """
    usual, _ = bind(case).specs()
    if operands:
        case = replace(case, placement=replace(case.placement, sharding=operands[0].request.sharding))
    own = []
    for number, (spec, value) in enumerate(zip(usual, operands, strict=False)):
        if number in prepared:
            own.append(OperandPlacement(dtype=value.spec.dtype if value.spec and value.spec.dtype is not spec.dtype else None))
        else:
            own.append(_operand(case, number, spec, value))
    case = _with_weights_dtype(case, own, prepared)
    while own and own[-1] == AS_CASE:
        own.pop()
    case = replace(case, placement=replace(case.placement, operands=tuple(own)))
    return _with_result(case, operands, results) if results and results[0].spec else case


def _operand(case: Case, number: int, usual: TensorSpec, value: MlirValue) -> OperandPlacement:
    """Returns what the operand has of its own. Layout and memory that the text lacks are as usual."""
    spec = value.spec
    if spec is None:
        return AS_CASE
    own = OperandPlacement(dtype=spec.dtype if spec.dtype is not usual.dtype else None)
    if value.known_layout or value.sharding:
        request = _request(value)
        own = replace(
            own,
            layout=spec.layout if spec.layout is not usual.layout else None,
            memory=request if request != bind(case).usual_request(number, usual) else None,
        )
    _check_shape(f"input {number + 1}", case, spec, usual)
    return own


def _with_weights_dtype(case: Case, own: list[OperandPlacement], prepared: Sequence[int]) -> Case:
    """Returns ``case`` with weights of block floats by the attribute for what TTNN converts torch's weights to.

    Those are rows, which block floats cannot be. ``own`` then no longer has the dtype.
    """
    for number in prepared:
        if number < len(own) and (dtype := own[number].dtype) is not None and dtype.is_block_float:
            own[number] = AS_CASE
            if WEIGHTS_DTYPE in bind(case).info.attrs:
                case = replace(case, attrs={WEIGHTS_DTYPE: dtype.value, **case.attrs})
    return case


def _with_result(case: Case, operands: Sequence[MlirValue], results: Sequence[MlirValue]) -> Case:
    """Returns ``case`` with memory and dtype of the first result, where those are not the first operand's."""
    placement, traits = case.placement, bind(case).info.traits
    interleaved = tuple(replace(operand, memory=None) for operand in placement.operands)
    _, usual = bind(replace(case, placement=replace(placement, sharding=None, operands=interleaved))).specs()
    for number, (value, expected) in enumerate(zip(results, usual, strict=False), 1):
        if value.spec is None:
            continue
        label = "result" if len(usual) == 1 else f"result {number}"
        if value.known_layout and not traits.moves_output and value.spec.layout is not expected.layout:
            raise InvalidCase(f"{label} is {value.spec.layout}, not {expected.layout}; a case of {case.operator} cannot be")
        _check_shape(label, case, value.spec, expected)
    result, request = results[0], _request(results[0])
    if usual and result.spec is not None and result.spec.dtype is not usual[0].dtype:
        placement = replace(placement, output_dtype=result.spec.dtype)
    if traits.output_fixed and usual and result.known_layout and request != MemoryRequest(usual[0].memory.buffer):
        raise InvalidCase(f"result is in {request}, where TTNN puts it in {usual[0].memory}")
    if operands and request != operands[0].request:
        memory = OutputMemory(request.buffer.value)
        placement = replace(placement, output_memory=memory, output_sharding=request.sharding)
    return replace(case, placement=placement)


def _request(value: MlirValue) -> MemoryRequest:
    request = value.request
    if request.buffer is BufferType.L1_SMALL:
        raise InvalidCase("a tensor in l1_small, which is TTNN's own")
    return request


def _check_shape(label: str, case: Case, actual: TensorSpec, in_case: TensorSpec) -> None:
    """Raises InvalidCase unless both have the same pages: rows may be folded anyhow, tiles only without leading dims of 1."""
    form = _folded if Layout.ROW_MAJOR in (actual.layout, in_case.layout) else core_shape
    if form(actual.shape) != form(in_case.shape):
        difference = f"{format_shape(actual.shape)}, not {format_shape(in_case.shape)}"
        raise InvalidCase(f"{label} is {difference}; a case of {case.operator} cannot be")


def _folded(shape: Shape) -> Shape:
    return math.prod(shape[:-1]), shape[-1]


def core_shape(shape: Shape) -> Shape:
    """Returns ``shape`` without leading dims of 1."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape
