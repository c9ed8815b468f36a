"""Writes a recorded call as a case, and compares the tensors that the case puts on the device with those of the recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.catalog.recorded.arguments import Arguments
from ssinghal.catalog.recorded.attributes import attribute
from ssinghal.catalog.recorded.calls import Member, RecordedCall, RecordedTensor, shown
from ssinghal.catalog.recorded.derived import derived
from ssinghal.catalog.recorded.drafts import Draft, Function
from ssinghal.catalog.recorded.functions import FUNCTIONS
from ssinghal.core.case import AS_CASE, Case, OperandPlacement, OutputMemory, Placement
from ssinghal.core.memory_config import BufferType, MemoryRequest, Sharding
from ssinghal.core.tensors import Board, Layout, Shape, TensorSpec, format_shape
from ssinghal.errors import InvalidCase, cut
from ssinghal.operators import find_operator, make_case, operators
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.settings import settings_of
from ssinghal.operators.ttnn_names import NOT_OPERATIONS, SYNONYMS, ttnn_operators

# Arguments that change nothing where they have this value, as TTNN's own default.
_DEFAULTS: Mapping[str, Any] = {
    "transpose_a": False,
    "transpose_b": False,
    "activations": [],
    "input_tensor_a_activations": [],
    "input_tensor_b_activations": [],
    "pad_value": 0.0,
    "numeric_stable": True,
    "use_multicore": True,
    "groups": 1,
    "queue_id": 0,
    "prefetcher_pipes": [],
    "correction": True,
    "scalar": 1.0,
}
_NO_OPERATOR = "no operator here makes this call"
_SHOWN = 100


def case_of(call: RecordedCall, boards: Sequence[Board]) -> Case:
    """Returns the call with its own tensors and arguments, on the first of ``boards`` that has its cores.

    Raises:
        InvalidCase: No case is this call; the text states why.
    """
    if call.function in NOT_OPERATIONS:
        raise InvalidCase(NOT_OPERATIONS[call.function])
    function = _function(call.function)
    call = call if call.has_arguments else derived(call, function.parameters)
    arguments = Arguments(call, function.parameters)
    draft = function.draft(arguments)
    if draft.operator not in operators():
        raise InvalidCase(_NO_OPERATOR)
    info = find_operator(draft.operator)
    output = _Output(call, arguments, draft, info)
    attrs = {**draft.attrs, **dict(_settings(arguments, info))}
    base = _base(draft, info)
    reasons: list[InvalidCase] = []
    for board in boards:
        try:
            return _placed(draft, attrs, replace(output.applied_to(base), l1_small_bytes=call.l1_small_bytes), board)
        except InvalidCase as error:
            reasons.append(error)
    raise reasons[0]


def _function(name: str) -> Function:
    name = SYNONYMS.get(name, name) if name not in FUNCTIONS else name
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    operator = ttnn_operators().get(name)
    if operator is None:
        raise InvalidCase(_NO_OPERATOR)
    info = find_operator(operator)
    names = tuple(operand.rstrip("?*") for operand in info.operands)

    def draft(arguments: Arguments) -> Draft:
        """Takes the tensors in their order, wherever they are, and all else by its name."""
        others = [name for name, value in arguments.rest().items() if name not in names and isinstance(value, RecordedTensor)]
        tensors = [value for name in (*names, *others) if (value := arguments.take(name)) is not None]
        wrong = next((value for value in tensors if not isinstance(value, RecordedTensor)), None)
        if wrong is not None:
            raise InvalidCase(f"{cut(shown(wrong), _SHOWN)}: expected a tensor")
        return Draft(info.name, [tensor.shape for tensor in tensors], tensors)

    return Function(names, draft)


class _Output:
    """What the call requests of its result."""

    def __init__(self, call: RecordedCall, arguments: Arguments, draft: Draft, info: OperatorInfo) -> None:
        result = call.results[0] if call.results else None
        requested = arguments.memory(draft.result_memory)
        if result is not None and (requested is not None or not call.has_arguments):
            requested = result.memory
        self._first = next((tensor.memory for tensor in draft.tensors if tensor is not None), None)
        self._request = requested
        self._dtype = None
        if draft.result_dtype not in info.attrs:
            self._dtype = arguments.dtype(draft.result_dtype)
            first = next(iter(draft.tensors), None)
            if not call.has_arguments and result is not None and first is not None and result.dtype is not first.dtype:
                self._dtype = result.dtype

    def applied_to(self, placement: Placement) -> Placement:
        placement = replace(placement, output_dtype=self._dtype)
        if self._request is None:
            return replace(placement, output_memory=OutputMemory.TTNN)
        if self._request == self._first:
            return replace(placement, output_memory=OutputMemory.SAME)
        memory = OutputMemory(self._request.buffer.value)
        return replace(placement, output_memory=memory, output_sharding=self._request.sharding)


def _settings(arguments: Arguments, info: OperatorInfo) -> Iterator[tuple[str, Any]]:
    """Yields the remaining arguments, which the operator has by the same names. InvalidCase for one that it lacks."""
    settings = settings_of(info)
    for name, value in arguments.rest().items():
        if name in settings or name in info.attrs:
            yield name, attribute(value)
        elif name not in _DEFAULTS or value != _DEFAULTS[name]:
            stated = f", which is {shown(value)}" if isinstance(value, (bool, int, float, str, Member)) else ""
            raise InvalidCase(f"a case of {info.name} has no {name}{stated}")


def _base(draft: Draft, info: OperatorInfo) -> Placement:
    """Returns the placement of the first operand."""
    first = next((tensor for tensor in draft.tensors if tensor is not None), None)
    if first is None:
        raise InvalidCase("has no tensor whose placement is known")
    if first.memory is None:
        raise InvalidCase(f"its operand {first}: no operator runs on the device")
    channels_last = None if info.traits.nhwc else False
    return Placement(
        first.dtype,
        first.layout,
        first.memory.buffer,
        channels_last=channels_last,
        sharding=first.memory.sharding,
    )


def _placed(draft: Draft, attrs: Mapping[str, Any], base: Placement, board: Board) -> Case:
    """Returns the case with what each operand has of its own; InvalidCase where its tensors are not those recorded."""
    case = make_case(draft.operator, tuple(draft.shapes), attrs, base)
    call = bind(replace(case, placement=_with_own_memories(case.placement, draft)), board)
    call.check()
    weights = call.info.traits.weights
    own = [
        AS_CASE if tensor is None else _own(tensor, spec, base, number in weights)
        for number, (tensor, spec) in enumerate(zip(draft.tensors, call.inputs, strict=True))
    ]
    while own and own[-1] == AS_CASE:
        own.pop()
    if own:
        case = replace(case, placement=replace(case.placement, operands=tuple(own)))
    placed = bind(case, board)
    for number, (tensor, spec) in enumerate(zip(draft.tensors, placed.inputs, strict=True), 1):
        if tensor is not None and (difference := _difference(tensor, spec)):
            raise InvalidCase(f"operand {number} is {difference}")
    _ = placed.outputs
    return case


def _with_own_memories(placement: Placement, draft: Draft) -> Placement:
    """Returns a placement in which the shards of the first operand, which may not hold the others, are its alone."""
    if placement.sharding is None:
        return placement
    others = (tensor.memory if tensor else None for tensor in draft.tensors[1:])
    own = (OperandPlacement(memory=memory or MemoryRequest(BufferType.DRAM)) for memory in others)
    return replace(placement, operands=(AS_CASE, *own))


def _own(tensor: RecordedTensor, spec: TensorSpec, base: Placement, is_weight: bool) -> OperandPlacement:
    """Returns what a recorded tensor has other than the case's own: ``spec``, in the shards of the case unless a weight."""
    usual = MemoryRequest(spec.memory.buffer)
    if base.sharding is not None:
        usual = MemoryRequest(BufferType.DRAM) if is_weight else base.request
    return OperandPlacement(
        None if tensor.dtype is spec.dtype else tensor.dtype,
        None if tensor.layout is spec.layout else tensor.layout,
        None if tensor.memory in (None, usual) else tensor.memory,
    )


def _request(spec: TensorSpec) -> MemoryRequest:
    return MemoryRequest(spec.memory.buffer, None if spec.memory.shard is None else Sharding.of(spec.memory.shard))


def _difference(tensor: RecordedTensor, spec: TensorSpec) -> str:
    if tensor.dtype is not spec.dtype:
        return f"{tensor.dtype}; a case has it in {spec.dtype}"
    if tensor.layout is not spec.layout:
        return f"{tensor.layout}; a case has it in {spec.layout}"
    if tensor.memory is not None and not _same_memory(tensor.memory, spec):
        return f"in {tensor.memory}; a case has it in {spec.memory}"
    if _pages(replace(spec, shape=tensor.shape)) != _pages(spec):
        return f"{format_shape(tensor.shape)}; a case has {format_shape(spec.shape)}"
    return ""


def _same_memory(request: MemoryRequest, spec: TensorSpec) -> bool:
    if request.sharding is None or spec.memory.shard is None:
        return request == _request(spec)
    shard, wanted = spec.memory.shard, request.sharding
    return (
        request.buffer is spec.memory.buffer
        and wanted.kind is shard.kind
        and wanted.shape in (None, shard.shape)
        and (wanted.cores in (None, shard.cores) or wanted.cores == shard.cores.count)
    )


def _pages(spec: TensorSpec) -> Shape:
    """Returns the shape as far as it decides the pages: however rows are folded, and without leading dims of 1."""
    if spec.layout is Layout.ROW_MAJOR:
        return spec.padded_2d
    shape = spec.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape
