"""Searches remedies of a failed call that an operator here can make, among the buffers that were resident."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.failed_call.state import FailedCall
from ssinghal.diagnose.mlir_to_case import case_of
from ssinghal.diagnose.model import MlirValue, Operation
from ssinghal.errors import InvalidCase
from ssinghal.profile.tried_changes import TriedChange
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import Unsolved, solve
from ssinghal.remedy.trial import Impact, Resident

# Other memories and dtypes are tried of the call itself.
_IMPACTS = (Impact.SAME, Impact.LAYOUT, Impact.REARRANGED, Impact.CHUNKED)
_RENAMED = {"dim": "dimension"}  # TTNN's arguments and the attributes of TT-MLIR


def remedies(call: FailedCall, pools: DevicePools, seconds: float, line: str) -> tuple[list[TriedChange], int]:
    """Returns remedies that work and the number of trials; none where no operator here makes this very call, or where the one
    that does fails otherwise."""
    try:
        case = _case(call)
        trace = call.trace_region_bytes
        report = solve(case, pools, Budget(seconds=seconds), tuple(_live(call)), trace_region_bytes=trace, only=_IMPACTS)
    except InvalidCase:
        return [], 0
    if isinstance(report, Unsolved) or not _is_same(report.remedies.problem.verdict, call.verdict):
        return [], 1
    found = [
        TriedChange(f"{r.impact}: {r.strategy}", f"in place of {line}", r.note, r.result.code[r.result.lines_of_live :])
        for r in report.remedies.found
    ]
    return found, report.remedies.probes


def _is_same(verdict: Verdict, recorded: Verdict) -> bool:
    return all(getattr(verdict, name) == getattr(recorded, name) for name in ("resource", "bytes_per_bank", "program_bytes"))


def _case(call: FailedCall) -> Case:
    """Raises InvalidCase where a case cannot have what the call has: sharded operands, or arguments of other kinds."""
    arguments = call.arguments
    if any(spec.config or spec.memory is None for spec, _ in call.operands):
        raise InvalidCase("an operand is sharded or on the host")
    if any(not _is_tensors(value) for value in arguments["args"]):
        raise InvalidCase("an argument has no name")
    attributes: dict[str, Any] = {}
    output: OutputMemory | None = None
    for name, value in arguments["kwargs"].items():
        if name == "memory_config" and isinstance(value, dict) and "json" in value:
            output = _output(json.loads(value["json"]))
        elif not _is_tensors(value):
            attributes[_RENAMED.get(name, name)] = attributes[name] = _plain(value)
    operands = tuple(MlirValue("", _tensor_spec(spec)) for spec, _ in call.operands)
    case = case_of(Operation(call.name, (), operands, attributes))
    return case if output is None else replace(case, placement=replace(case.placement, output_memory=output))


def _is_tensors(value: Any) -> bool:
    return all(map(_is_tensors, value)) if isinstance(value, list) else isinstance(value, dict) and "tensor" in value


def _plain(value: Any) -> Any:
    items = value["tuple"] if isinstance(value, dict) and "tuple" in value else value
    if isinstance(items, dict):
        raise InvalidCase("an argument is an object of TTNN")
    return items


def _output(config: Mapping[str, Any]) -> OutputMemory:
    if config.get("shard_spec") or config["memory_layout"] != 0:
        raise InvalidCase("the result is sharded")
    return OutputMemory.L1 if config["buffer_type"] == 1 else OutputMemory.DRAM


def _tensor_spec(spec: Any) -> TensorSpec:
    return TensorSpec(spec.shape, DType(spec.dtype), Layout(spec.layout), MemoryConfig(BufferType(spec.memory)))


def _live(call: FailedCall) -> Iterator[Resident]:
    """Yields the buffers that are no operands, in the order in which the allocator fills a bank, and the holes between them."""
    operands = call.operand_addresses
    for memory in ("dram", "l1"):
        kind, downwards = BufferType(memory), memory == "l1"
        edge = call.bottom if memory == "dram" else call.device.l1_top - call.l1_small_bytes
        held = [one for one in call.held if one.memory == memory and (memory, one.address) not in operands]
        for one in sorted(held, key=lambda one: one.address, reverse=downwards):
            gap = edge - one.address - one.bank_bytes if downwards else one.address - edge
            if gap:
                yield Resident(kind, gap, freed=True)
            yield Resident(kind, one.bank_bytes)
            edge = one.address if downwards else one.address + one.bank_bytes
