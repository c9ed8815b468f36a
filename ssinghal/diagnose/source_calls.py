"""Derives calls from sizes in the text that has no operation with its types; what the text lacks is assumed.

A line of Python has the sizes of a pool or a convolution if they are written as numbers, but no dtype, layout and memory. A log
may show the tensors that a function was called with, but not their memory.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.tensors import BufferType, DType, Layout, TensorSpec
from ssinghal.diagnose.call_arguments import CallArguments, call_arguments, keywords_of
from ssinghal.diagnose.mlir_to_case import case_of
from ssinghal.diagnose.model import MlirValue, Operation, PythonCall
from ssinghal.diagnose.source_shapes import operands_of
from ssinghal.diagnose.ttnn_functions import PREFIX
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator

_WINDOW: Mapping[str, Any] = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]}  # TTNN's own defaults
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "max_pool2d": _WINDOW,
    "avg_pool2d": _WINDOW,
    "conv2d": {**_WINDOW, "groups": 1},
    "conv_transpose2d": {**_WINDOW, "groups": 1, "output_padding": [0, 0]},
}
NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})
_SOURCE_LINE = "the source line"
_CONVOLUTIONS = ("conv2d", "conv_transpose2d")
_RENAMED = {"input_h": "input_height", "input_w": "input_width"}
_PAIRS = ("kernel_size", "stride", "padding", "dilation", "output_padding")


@dataclass(frozen=True)
class SourceCall:
    """A call with the sizes of the text; the rest of ``case`` is assumed.

    ``sizes_from``: the part of the text that has them. ``left_out``: what else is set there, but cannot be in a case.
    """

    case: Case
    sizes_from: str
    left_out: tuple[str, ...] = ()


def source_calls(
    call: PythonCall, memory: BufferType | None, arguments: Mapping[str, str] = NO_ARGUMENTS
) -> Iterator[SourceCall]:
    """Yields the call of the line for each layout and memory that its operand may have; none where the line lacks its sizes.

    ``memory``: the one that is exhausted according to the text. ``arguments``: by name, as printed elsewhere in the text.
    """
    for node in _calls(call.source):
        name = ast.unparse(node.func).removeprefix(PREFIX)
        if name in DEFAULTS:
            keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            for known in _cases(name, keywords):
                carried = call_arguments({**keywords_of(node), **arguments}, find_operator(known.case.operator))
                yield from _in_placements(known, carried, memory)
            return
        operands = tuple(MlirValue("", spec) for spec in operands_of(node))
        on_these = list(calls_on(operands, (name,), memory, {**keywords_of(node), **arguments}))
        if on_these:
            yield from (replace(one, sizes_from=_SOURCE_LINE) for one in on_these)
            return


def calls_on(
    operands: Sequence[MlirValue],
    functions: Sequence[str],
    memory: BufferType | None,
    arguments: Mapping[str, str] = NO_ARGUMENTS,
) -> Iterator[SourceCall]:
    """Yields calls of the first of ``functions`` that takes exactly ``operands``: in place, in ``memory``, from DRAM into it.

    ``arguments``: by name, as the text has them. Operands whose memory is known are where they are.
    """
    for function in functions if operands else ():
        try:
            case = case_of(Operation(PREFIX + function.removeprefix(PREFIX), (), tuple(operands), _dims(arguments)))
        except InvalidCase:
            continue
        carried = call_arguments(arguments, find_operator(case.operator))
        is_placed = all(value.known_layout for value in operands)
        yield from _in_placements(SourceCall(case, "the tensors in the text"), carried, None if is_placed else memory)
        return


def arguments_in(call: PythonCall | None, functions: Sequence[str]) -> Mapping[str, str]:
    """Returns the arguments by name of the first call of one of ``functions`` in a line of Python."""
    for node in _calls(call.source) if call else ():
        if PREFIX + ast.unparse(node.func).removeprefix(PREFIX) in functions:
            return keywords_of(node)
    return NO_ARGUMENTS


def _dims(arguments: Mapping[str, str]) -> dict[str, Any]:
    """Returns the dim of ``arguments`` by each name that an operation of a compiler has for it."""
    try:
        dim = int(arguments.get("dim", ""))
    except ValueError:
        return {}
    return {"dim": dim, "dimension": dim, "dim_arg": [dim]}


def _in_placements(known: SourceCall, carried: CallArguments, memory: BufferType | None) -> Iterator[SourceCall]:
    """Yields the call with its arguments for each memory that its operands may have."""
    left_out = tuple(dict.fromkeys((*known.left_out, *carried.left_out)))
    for placement in _placements(known.case, memory):
        if carried.memory is not None and placement.output_memory is not OutputMemory.SAME:
            continue  # the text has the result's memory
        try:
            case = carried.applied_to(replace(known.case, placement=placement))
        except InvalidCase as error:
            case, left_out = replace(known.case, placement=placement), (*known.left_out, str(error))
        yield replace(known, case=case, left_out=left_out)


def _placements(case: Case, memory: BufferType | None) -> list[Placement]:
    """Returns where the operands may have been: as ``case`` has them; in ``memory``, if that is the one that is exhausted; and
    in DRAM, with a result in ``memory``."""
    placements = [case.placement]
    if memory in (BufferType.L1, BufferType.DRAM):
        out = OutputMemory.SAME if memory is BufferType.DRAM else OutputMemory.L1
        placements += [replace(case.placement, memory=memory)]
        placements += [replace(case.placement, memory=BufferType.DRAM, output_memory=out)]
    return list(dict.fromkeys(placements))


def _cases(name: str, keywords: Mapping[str, ast.expr]) -> Iterator[SourceCall]:
    literals = {arg: value for arg, node in keywords.items() if (value := _literal(node)) is not None}
    attributes = {**DEFAULTS[name], **{_RENAMED.get(arg, arg): _listed(arg, value) for arg, value in literals.items()}}
    for layout in (Layout.ROW_MAJOR, Layout.TILE):
        try:
            operands = tuple(_operands(name, attributes, layout, has_bias="bias_tensor" in keywords))
            yield SourceCall(case_of(Operation(PREFIX + name, (), operands, attributes)), _SOURCE_LINE)
        except InvalidCase:
            continue


def _operands(name: str, attributes: Mapping[str, Any], layout: Layout, *, has_bias: bool) -> Iterator[MlirValue]:
    """Yields the map, flat as TTNN takes it; for a convolution also a weight and a bias, which ``case_of`` sizes by the call.

    Raises:
        InvalidCase: a size is not among the numbers.
    """
    channels = attributes.get("in_channels" if name in _CONVOLUTIONS else "channels")
    sizes = [attributes.get(arg) for arg in ("batch_size", "input_height", "input_width")]
    if not all(isinstance(size, int) and size > 0 for size in (*sizes, channels)):
        raise InvalidCase(f"{name}: the line lacks sizes as numbers")
    yield MlirValue("", TensorSpec((1, 1, math.prod(sizes), channels), DType.BFLOAT16, layout))  # type: ignore[arg-type]
    if name in _CONVOLUTIONS:
        one = TensorSpec((1, 1), DType.BFLOAT16, layout)
        yield from [MlirValue("", one)] * (2 if has_bias else 1)


def _calls(source: str) -> Iterator[ast.Call]:
    """Yields the calls of TTNN in a line that may be a statement, the header of a block or part of one."""
    start = source.find(PREFIX)
    while start >= 0:
        for end in (i for i, char in enumerate(source) if char == ")" and i > start):
            try:
                node = ast.parse(source[start : end + 1], mode="eval").body
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                continue
            if isinstance(node, ast.Call):
                yield node
            break
        start = source.find(PREFIX, start + 1)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None


def _listed(name: str, value: Any) -> Any:
    """Returns a value as an operation has it: a window's sizes as a list of two."""
    if name in _PAIRS and isinstance(value, int):
        return [value, value]
    return list(value) if isinstance(value, tuple) else value
