"""Decides by arithmetic whether a case fits.

TTNN places the operands in order, then the results; nothing is freed in between, and L1 buffers grow down from the top of each
bank while program buffers grow up from the reserved base. What else TTNN allocates (temporaries, program buffers without a
formula) is not estimated: such a case is ``unknown`` and needs a probe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.estimate import Estimate, EstimatedTensor, Prediction
from ssinghal.core.memory_config import Sharding
from ssinghal.core.tensors import (
    ONE_CHIP,
    Board,
    BufferType,
    Layout,
    ShardKind,
    TensorSpec,
    ceil_div,
    format_bytes,
    format_shape,
)
from ssinghal.core.verdict import Resource
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import bind
from ssinghal.operators.case_json import case_from_json, read_lines
from ssinghal.operators.operator_info import plain_specs

_RESOURCES = {
    BufferType.L1: Resource.L1_BUFFER,
    BufferType.DRAM: Resource.DRAM_BUFFER,
    BufferType.L1_SMALL: Resource.L1_SMALL_BUFFER,
}


@dataclass(frozen=True)
class Allocation:
    """A tensor of the call. ``label``: "input 1", …, "output", or "output 1", … where there are several."""

    label: str
    spec: TensorSpec
    logical_bytes: int
    allocated_bytes: int
    bytes_per_bank: int
    booked_bytes_per_bank: int

    @classmethod
    def of(cls, label: str, spec: TensorSpec, board: Board) -> Allocation:
        return cls(
            label,
            spec,
            spec.logical_bytes,
            spec.allocated_bytes(board),
            spec.bytes_per_bank(board),
            spec.booked_bytes_per_bank(board),
        )

    @property
    def padding_factor(self) -> float:
        """Allocated over logical bytes; 1.0 without padding."""
        return self.allocated_bytes / self.logical_bytes

    @property
    def padding_cause(self) -> str:
        """Every padded dim with its factor, the largest first; empty without padding."""
        grown = sorted((p for p in self._paddings() if p[0] > 1), key=lambda p: -p[0])
        return ", ".join(f"{cause} ({factor:.4g}x)" for factor, cause in grown)

    def _paddings(self) -> list[tuple[float, str]]:
        spec = self.spec
        width, padded_width = spec.shape[-1], spec.padded_shape[-1]
        paddings = [(padded_width / width, f"last dim {width} padded to {padded_width}")]
        if spec.layout is Layout.TILE:
            height = spec.shape[-2] if len(spec.shape) > 1 else 1
            padded_height = spec.padded_shape[-2]
            name = "second last dim" if len(spec.shape) > 1 else "rank 1, height"
            paddings.append((padded_height / height, f"{name} {height} padded to {padded_height}"))
        if spec.memory.shard is not None:
            stored_factor = self.allocated_bytes / (spec.num_pages * spec.page_bytes)
            paddings.append((stored_factor, "shards filled in part, or rows aligned"))
        else:
            stored = ceil_div(self.allocated_bytes, spec.num_pages)
            paddings.append((stored / spec.page_bytes, f"rows of {spec.page_bytes} B stored as {stored} B"))
        return paddings

    def stored(self) -> EstimatedTensor:
        """Returns the tensor as a record keeps it."""
        return EstimatedTensor(
            label=self.label,
            shape=self.spec.shape,
            padded_shape=self.spec.padded_shape,
            dtype=self.spec.dtype.value,
            layout=self.spec.layout.value,
            memory=str(self.spec.memory),
            logical_bytes=self.logical_bytes,
            allocated_bytes=self.allocated_bytes,
            bytes_per_bank=self.bytes_per_bank,
            booked_bytes_per_bank=self.booked_bytes_per_bank,
            padding_factor=round(self.padding_factor, 4),
            padding_cause=self.padding_cause,
        )


@dataclass(frozen=True)
class MemoryEstimate:
    """What arithmetic predicts for a case on ``board`` (opened with the case's ``l1_small_size``), and the ``reason``.

    ``allocations`` are all tensors of the call that take memory, including those after the first that does not fit;
    ``peak_bytes_per_bank`` is their sum. ``program_bytes`` are program buffers per core, where a formula
    is known. Where ``verdict`` is "exceeds", ``resource`` runs out, ``stage`` names the tensor or "program", and the other
    numbers are those of TTNN's message: for a tensor ``total_bytes`` over ``banks``, ``bytes_per_bank`` needed,
    ``bank_bytes`` available with ``allocated_bytes``/``free_bytes``/``largest_free_bytes``; for program buffers the address
    ``program_end`` that they reach and ``limit_bytes``, the end of L1 or the lowest tensor's address.

    ``complete``: the results are among the allocations; False where the call is invalid, or where TTNN decides their place.
    ``temporaries``: TTNN allocates more tensors during the call. A result that does not fit is certain even then, but TTNN's
    message may name a temporary that failed before it.
    """

    board: Board
    allocations: tuple[Allocation, ...]
    peak_bytes_per_bank: Mapping[BufferType, int]
    verdict: Prediction = Prediction.UNKNOWN
    reason: str = ""
    resource: Resource | None = None
    stage: str = ""
    total_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None
    bank_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    complete: bool = True
    temporaries: bool = False
    program_bytes: int | None = None
    program_end: int | None = None
    limit_bytes: int | None = None

    @property
    def shortfall_bytes(self) -> int | None:
        """Missing bytes: per bank for a tensor, per core for program buffers."""
        if self.bytes_per_bank is not None and self.largest_free_bytes is not None:
            return self.bytes_per_bank - self.largest_free_bytes
        if self.program_end is not None and self.limit_bytes is not None:
            return self.program_end - self.limit_bytes
        return None

    def stored(self) -> Estimate:
        """Returns the estimate as a record keeps it."""
        alike = {name: getattr(self, name) for name in _STORED}
        return Estimate(**{**alike, "allocations": tuple(a.stored() for a in self.allocations)})

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict with the numbers that apply, then every tensor."""
        return self.stored().to_json()


_STORED = tuple(field.name for field in fields(Estimate))


def estimate(case: Case, board: Board, shard: ShardKind | None = None) -> MemoryEstimate:
    """Returns what arithmetic knows of a case, without a device.

    A call that is invalid (an operand or attribute is missing or wrong), or that TTNN lacks, is judged by its operands alone:
    it exceeds, or is unknown for that reason.

    Args:
        case: The call, whose shapes are in elements.
        board: The board, from ``load_board``.
        shard: Cuts all L1 tensors of the call evenly over the cores; by default they are interleaved.

    Returns:
        The estimate: verdict, resource, and all sizes in bytes, per bank and in total.

    Raises:
        InvalidCase: An operand that no device can hold, such as bfloat8_b in row-major layout, or shards that the board lacks
            the cores for.

    Examples:
        >>> from ssinghal import load_board, make_case
        >>> estimate(make_case("relu", ((1, 32, 64),)), load_board("n150")).peak_bytes_per_bank[BufferType.DRAM]
        4096
    """
    board = board.with_l1_small(case.placement.l1_small_bytes or 0)
    plan = _allocations_of(case if shard is None else _sharded(case, shard), board)
    allocations = tuple(Allocation.of(label, spec, board) for label, spec in _labelled(plan.inputs, plan.outputs))
    peak: Counter[BufferType] = Counter()
    for allocation in allocations:
        peak[allocation.spec.memory.buffer] += allocation.booked_bytes_per_bank
    estimated = MemoryEstimate(
        board,
        allocations,
        peak,
        complete=plan.complete,
        temporaries=plan.temporaries,
        program_bytes=plan.program_bytes,
    )
    exceeded = _first_that_does_not_fit(estimated) or _program_failure(estimated)
    if exceeded is not None:
        is_result = exceeded.stage.startswith("output")
        return (
            replace(estimated, reason=f"{exceeded.reason}, but {plan.open_result}")
            if is_result and plan.open_result
            else exceeded
        )
    if plan.unknown:
        return replace(estimated, reason=plan.unknown)
    return replace(estimated, verdict=Prediction.FITS, reason="its tensors and program buffers fit")


@dataclass(frozen=True)
class _AllocationList:
    """The tensors that a call allocates.

    Attributes:
        unknown: Why they do not decide that it fits; empty where they do.
        open_result: Why a result that does not fit is not certain; empty where it is.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec] = ()
    complete: bool = True
    temporaries: bool = False
    program_bytes: int | None = None
    unknown: str = ""
    open_result: str = ""


def _allocations_of(case: Case, board: Board) -> _AllocationList:
    call = bind(case, board)
    case = call.on_chip
    try:
        inputs, outputs = call.specs()
    except InvalidCase as error:
        return _operands_alone(plain_specs(case), f"the call is invalid: {error}")
    for limitation in call.limitations(board):
        return _operands_alone(inputs, f"TTNN cannot make the call: {limitation.reason}")
    traits = call.info.traits
    strays = traits.may_stray is not None and call.is_output_open and case.placement.output_memory is not OutputMemory.DRAM
    if strays or (traits.moves_output and case.placement.output_config is None):
        return _operands_alone(inputs, "where TTNN puts the result is known only from a probe")
    if call.layout_setting:
        return _operands_alone(inputs, "the layout that TTNN gives the result is known only from a probe")
    is_plain = case.placement.is_plain and not call.settings
    is_alias = is_plain and traits.alias is not None and traits.alias(inputs, outputs)
    temporaries = traits.temporaries and not is_alias
    program_bytes = 0 if is_alias else None
    if not is_plain and outputs:
        program_bytes = None  # shards, mixed dtypes and settings have programs of their own
    elif traits.program is not None:
        program_bytes = traits.program(inputs, outputs)
    unseen = ["temporaries"] * temporaries + ["program buffers"] * (program_bytes is None)
    unknown = f"its tensors fit, but TTNN's {' and '.join(unseen)} are known only from a probe" if unseen else ""
    allocated = () if is_alias or call.in_place else outputs
    # Measured: where tensors are sharded, operators refuse a result in other shards than the first operand's, or choose others.
    has_shards = any(spec.memory.shard for spec in (*inputs, *outputs))
    is_open = has_shards and any(spec.memory != inputs[0].memory for spec in outputs if inputs)
    open_result = "TTNN may refuse this memory, or choose other shards: it is known only from a probe" if is_open else ""
    if not is_plain and outputs and traits.alias is not None and traits.alias(inputs, outputs):
        open_result = "TTNN may return the operand itself: it is known only from a probe"
    elif call.is_layout_open and outputs:
        open_result = "TTNN may change the layout: it is known only from a probe"
    return _AllocationList(
        inputs,
        allocated,
        temporaries=temporaries,
        program_bytes=program_bytes,
        unknown=unknown,
        open_result=open_result,
    )


def _sharded(case: Case, kind: ShardKind) -> Case:
    """Returns the case with its L1 tensors sharded.

    Raises:
        InvalidCase: Its operands are not in L1.
    """
    if case.placement.sharding is not None:
        raise InvalidCase(f"sharding {kind} contradicts memory {case.placement.memory_text}; expected one of them")
    if case.placement.memory is not BufferType.L1:
        raise InvalidCase(f"sharding ({kind}) is for tensors in L1, and this call has none there; expected memory l1")
    return replace(case, placement=replace(case.placement, sharding=Sharding(kind)))


def _operands_alone(inputs: Sequence[TensorSpec], gap: str) -> _AllocationList:
    return _AllocationList(inputs, complete=False, unknown=f"its operands fit, but {gap}")


def _labelled(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> list[tuple[str, TensorSpec]]:
    operands = [(f"input {number}", spec) for number, spec in enumerate(inputs, 1)]
    if len(outputs) == 1:
        return [*operands, ("output", outputs[0])]
    return [*operands, *((f"output {number}", spec) for number, spec in enumerate(outputs, 1))]


def _first_that_does_not_fit(estimated: MemoryEstimate) -> MemoryEstimate | None:
    """Returns the estimate with the first tensor that does not fit next to those before it; None where all fit."""
    taken: Counter[BufferType] = Counter()
    for allocation in estimated.allocations:
        spec, label = allocation.spec, allocation.label
        kind = spec.memory.buffer
        region = estimated.board.region(kind)
        free = region.bank_bytes - taken[kind]
        if allocation.booked_bytes_per_bank <= free:
            taken[kind] += allocation.booked_bytes_per_bank
            continue
        if spec.wraps_page_count:
            reason = f"{label} has {spec.num_pages:,} pages of {spec.page_bytes:,} B, too many for TTNN to count"
        else:
            need, bank = f"{allocation.bytes_per_bank:,} B", f"{kind.value.upper()} bank"
            reason = f"{label} needs {need} in each {bank}, where {free:,} of {region.bank_bytes:,} B are free"
        return replace(
            estimated,
            verdict=Prediction.EXCEEDS,
            reason=reason,
            resource=_RESOURCES[kind],
            stage=label,
            total_bytes=allocation.allocated_bytes,
            bytes_per_bank=allocation.bytes_per_bank,
            banks=spec.num_banks(estimated.board),
            bank_bytes=region.bank_bytes,
            allocated_bytes=taken[kind],
            free_bytes=free,
            largest_free_bytes=free,
        )
    return None


def _program_failure(estimated: MemoryEstimate) -> MemoryEstimate | None:
    """Returns the estimate with program buffers that reach beyond L1 or into its tensors; None where none are known to."""
    if estimated.program_bytes is None:
        return None
    board, l1_bytes = estimated.board, estimated.peak_bytes_per_bank.get(BufferType.L1, 0)
    end = board.reserved_base_bytes + estimated.program_bytes
    if end > board.l1_end_bytes:
        resource, limit = Resource.CIRCULAR_BUFFER, board.l1_end_bytes
        reason = f"program buffers reach address {end:,}, beyond the end of L1 at {limit:,}"
    elif l1_bytes and end > board.l1_end_bytes - board.l1_small_bytes - l1_bytes:
        resource, limit = Resource.CLASH, board.l1_end_bytes - board.l1_small_bytes - l1_bytes
        reason = f"program buffers reach address {end:,}, but L1 tensors start at {limit:,}"
    else:
        return None
    return replace(
        estimated,
        verdict=Prediction.EXCEEDS,
        reason=reason,
        resource=resource,
        stage="program",
        program_end=end,
        limit_bytes=limit,
    )


# As text ----------------------------------------------------------------------------------------------------------------


def explain(estimated: MemoryEstimate) -> str:
    """Returns lines for a terminal: every tensor with its sizes, share of a bank and padding; then the verdict."""
    lines = ["of each of {}x{} chips:".format(*estimated.board.mesh)] if estimated.board.mesh != ONE_CHIP else []
    for allocation in estimated.allocations:
        spec = allocation.spec
        bank_bytes = estimated.board.region(spec.memory.buffer).bank_bytes
        share = f"{allocation.booked_bytes_per_bank / bank_bytes:.1%}" if bank_bytes else "no bank"
        lines += [
            f"{allocation.label}: {format_shape(spec.shape)} {spec.dtype} {spec.layout} {spec.memory}",
            f"  logical {format_bytes(allocation.logical_bytes)}, allocated {format_bytes(allocation.allocated_bytes)}",
            f"  per bank {format_bytes(allocation.bytes_per_bank)}, {share} of a bank of {format_bytes(bank_bytes)}",
        ]
        if allocation.padding_cause:
            lines.append(f"  padding {allocation.padding_factor:.4g}x, mostly {allocation.padding_cause}")
    if estimated.program_bytes:
        lines.append(f"program buffers: {format_bytes(estimated.program_bytes)} per core")
    where = f" ({estimated.resource})" if estimated.resource else ""
    shortfall = estimated.shortfall_bytes or 0
    missing = f"; {format_bytes(shortfall)} too many" if shortfall > 0 else ""
    lines.append(f"{estimated.verdict}{where}: {estimated.reason}{missing}")
    return "\n".join(lines)


def read_cases(path: Path, lines: Iterable[str], board: Board) -> list[tuple[Case, MemoryEstimate]]:
    """Reads all cases of a JSONL file (blank lines are skipped), and estimates each on ``board``.

    Raises:
        CatalogError: lists every invalid line as ``file:line: reason``.
    """

    def parse(fields: Any) -> tuple[Case, MemoryEstimate]:
        case = case_from_json(fields)
        return case, estimate(case, board)

    return read_lines(path, lines, parse)
