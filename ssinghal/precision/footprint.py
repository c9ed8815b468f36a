"""Bytes of calls and of tensors in each dtype that a plan chooses from. Arithmetic alone: neither torch, ttnn nor a device.

A plan gives every tensor of a call one dtype, as the registry's operators do. Where TTNN does not take it, the call stays
bfloat16 (or what it was, where TTNN does not take that either) with the reason, and nothing is counted as saved. Tensors that
hold whole numbers (indices, masks) stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import Board, DType, Layout, TensorSpec, TextEnum
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Allocation, MemoryEstimate, Prediction, estimate
from ssinghal.operators.binding import bind, specs_of

PLAN_DTYPES = (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B)


_FLOATS = (*PLAN_DTYPES, DType.FLOAT32)


class Role(TextEnum):
    """``view``: a result that lies in an operand's memory and takes none of its own."""

    WEIGHT = "weight"
    OPERAND = "operand"
    RESULT = "result"
    VIEW = "view"


@dataclass(frozen=True)
class Footprint:
    """Bytes of tensors: allocated (padding and alignment included) and logical (the values alone), weights apart."""

    weight_bytes: int = 0
    activation_bytes: int = 0
    weight_logical_bytes: int = 0
    activation_logical_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.activation_bytes

    def plus(self, spec: TensorSpec, board: Board, *, is_weight: bool, times: int = 1) -> Footprint:
        allocated, logical = times * spec.allocated_bytes(board), times * spec.logical_bytes
        if is_weight:
            return replace(
                self, weight_bytes=self.weight_bytes + allocated, weight_logical_bytes=self.weight_logical_bytes + logical
            )
        return replace(
            self,
            activation_bytes=self.activation_bytes + allocated,
            activation_logical_bytes=self.activation_logical_bytes + logical,
        )

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(
            self.weight_bytes + other.weight_bytes,
            self.activation_bytes + other.activation_bytes,
            self.weight_logical_bytes + other.weight_logical_bytes,
            self.activation_logical_bytes + other.activation_logical_bytes,
        )


def plan_bytes(specs: Iterable[tuple[TensorSpec, bool]], board: Board) -> dict[DType, Footprint]:
    """The bytes of tensors, each told with whether it is a weight, in every dtype of ``PLAN_DTYPES``.

    Floats alone change. A row-major tensor is bfloat16 in the plans of block floats, which exist in tile layout only. What the
    calls that use the tensors take is not asked here: ``plan_call`` does.
    """
    found = dict.fromkeys(PLAN_DTYPES, Footprint())
    for spec, is_weight in specs:
        for dtype in PLAN_DTYPES:
            found[dtype] = found[dtype].plus(_spec_in(spec, dtype), board, is_weight=is_weight)
    return found


def _spec_in(spec: TensorSpec, dtype: DType) -> TensorSpec:
    if spec.dtype not in _FLOATS:
        return spec
    return replace(spec, dtype=DType.BFLOAT16 if spec.layout is Layout.ROW_MAJOR else dtype)


@dataclass(frozen=True)
class PlannedTensor:
    """``allocation``: the tensor with its label ("input 1", "output"), spec and bytes."""

    role: Role
    allocation: Allocation


@dataclass(frozen=True)
class DTypePlan:
    """The call of ``case`` as it is made where ``wanted`` is asked for; ``kept`` says why it is another dtype, where it is."""

    wanted: DType
    case: Case
    kept: str
    tensors: tuple[PlannedTensor, ...]
    estimate: MemoryEstimate

    @property
    def dtype(self) -> DType:
        """What the call is made in."""
        return self.case.placement.dtype

    @property
    def unsaved(self) -> str:
        """Why not all of the call is in ``wanted``: it is not made so, or gives another dtype. Empty where all is."""
        results = [t.allocation.spec.dtype for t in self.tensors if t.role is Role.RESULT]
        other = [str(dtype) for dtype in results if dtype in _FLOATS and dtype is not self.wanted]
        return self.kept or (f"TTNN takes it, but gives {other[0]}" if other else "")

    @property
    def allocated_bytes(self) -> int:
        """Of all tensors that take memory of their own."""
        return sum(t.allocation.allocated_bytes for t in self.tensors if t.role is not Role.VIEW)

    def footprint(self, board: Board, calls: int = 1) -> Footprint:
        """Weights and results of ``calls`` such calls: what each makes or owns. Its other operands are other calls' results."""
        total = Footprint()
        for tensor in self.tensors:
            if tensor.role in (Role.WEIGHT, Role.RESULT):
                total = total.plus(tensor.allocation.spec, board, is_weight=tensor.role is Role.WEIGHT, times=calls)
        return total


@dataclass(frozen=True)
class CallPlan:
    """One call in every dtype of ``PLAN_DTYPES``, and ``given``: as it was asked for."""

    board: Board
    given: DTypePlan
    plans: Mapping[DType, DTypePlan]

    @property
    def case(self) -> Case:
        return self.given.case

    @property
    def exceeds(self) -> bool:
        """In bfloat16."""
        return self.plans[DType.BFLOAT16].estimate.verdict is Prediction.EXCEEDS

    @property
    def always_exceeds(self) -> bool:
        return all(plan.estimate.verdict is Prediction.EXCEEDS for plan in self.plans.values())

    @property
    def mended_by(self) -> list[DTypePlan]:
        """Plans whose known tensors fit, of a call that exceeds in bfloat16; an ``unknown`` among them needs a probe."""
        if not self.exceeds:
            return []
        return [plan for plan in self.plans.values() if plan.estimate.verdict is not Prediction.EXCEEDS]


def plan_call(case: Case, board: Board, weights: Sequence[bool] = ()) -> CallPlan:
    """``case`` in every dtype. ``weights``: of each operand, whether it is one; none where left out.

    Raises:
        InvalidCase: operands, attributes or shapes that do not go together.
    """
    specs_of(case)
    plans = {dtype: _plan(case, dtype, *_made_in(case, dtype, board), board, weights) for dtype in PLAN_DTYPES}
    return CallPlan(board, _plan(case, case.placement.dtype, case, "", board, weights), plans)


def _plan(given: Case, wanted: DType, made: Case, kept: str, board: Board, weights: Sequence[bool]) -> DTypePlan:
    call = bind(made)
    operands, results = call.specs()
    traits = call.info.traits
    is_view = traits.in_place or (traits.alias is not None and traits.alias(operands, results))
    flags = [*weights, *[False] * (len(operands) - len(weights))]
    tensors = [
        PlannedTensor(Role.WEIGHT if is_weight else Role.OPERAND, Allocation.of(f"input {number}", spec, board))
        for number, (spec, is_weight) in enumerate(zip(operands, flags, strict=True), 1)
    ]
    for number, spec in enumerate(results, 1):
        label = "output" if len(results) == 1 else f"output {number}"
        tensors.append(PlannedTensor(Role.VIEW if is_view else Role.RESULT, Allocation.of(label, spec, board)))
    return DTypePlan(wanted, made, kept, tuple(tensors), estimate(made, board))


def _made_in(case: Case, wanted: DType, board: Board) -> tuple[Case, str]:
    """The call in ``wanted``, or in what it stays, with the reason."""
    if case.placement.dtype not in _FLOATS:
        return case, f"its tensors hold whole numbers ({case.placement.dtype})"
    kept = ""
    for dtype in dict.fromkeys((wanted, DType.BFLOAT16)):
        layout = Layout.TILE if dtype.is_block_float else case.placement.layout
        made = replace(case, placement=replace(case.placement, dtype=dtype, layout=layout))
        refusal = _refusal(made, board)
        if not refusal:
            return made, kept
        kept = kept or refusal
    return case, kept


def _refusal(case: Case, board: Board) -> str:
    """Why TTNN does not make the call: what the registry knows of it. Empty where it does."""
    call = bind(case)
    try:
        call.specs()
    except InvalidCase as error:
        return f"the call as made here is not all in tiles: {error}" if case.placement.dtype.is_block_float else str(error)
    return next((x.reason for x in call.limitations(board)), "")
