"""Computes the bytes of calls and tensors in each dtype of a plan, by arithmetic alone.

A plan gives every tensor of a call one dtype, but for those that have a dtype of their own. Where TTNN does not take it, the
call stays bfloat16 (or as it was, where TTNN does not take that either), with the reason and no savings. Tensors of whole
numbers (indices, masks) stay as they are. Weights of convolutions are those that TTNN prepares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.case import Case
from ssinghal.core.estimate import Prediction
from ssinghal.core.tensors import Board, DType, Layout, TensorSpec, TextEnum
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Allocation, MemoryEstimate, estimate
from ssinghal.operators import named
from ssinghal.operators.binding import bind, specs_of
from ssinghal.operators.operator_info import WEIGHTS_DTYPE
from ssinghal.operators.prepared_weights import CONVOLUTIONS, prepared_weights

PLAN_DTYPES = (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B)
_FLOATS = (*PLAN_DTYPES, DType.FLOAT32)
_BATCH_NORMS = frozenset(named("native_batch_norm"))
_SMALL_MAPS = "TTNN convolves small maps alone to bfloat4_b: the weights are in bfloat4_b"


class Role(TextEnum):
    """``batch_norm``: the statistics and weights of one, which ports fold into the convolution before it. ``view``: a result
    that shares the memory of an operand."""

    WEIGHT = "weight"
    BATCH_NORM = "batch_norm"
    OPERAND = "operand"
    RESULT = "result"
    VIEW = "view"


@dataclass(frozen=True)
class Footprint:
    """Bytes of weights and activations: allocated (with padding and alignment) and logical (values only).

    ``batch_norm_bytes``: allocated for those batch norms that are calls of their own.
    """

    weight_bytes: int = 0
    activation_bytes: int = 0
    weight_logical_bytes: int = 0
    activation_logical_bytes: int = 0
    batch_norm_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.activation_bytes + self.batch_norm_bytes

    def plus(self, spec: TensorSpec, board: Board, role: Role, times: int = 1) -> Footprint:
        allocated, logical = times * spec.allocated_bytes(board), times * spec.logical_bytes
        if role is Role.BATCH_NORM:
            return replace(self, batch_norm_bytes=self.batch_norm_bytes + allocated)
        if role is Role.WEIGHT:
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
            self.batch_norm_bytes + other.batch_norm_bytes,
        )


def plan_bytes(specs: Iterable[tuple[TensorSpec, bool]], board: Board) -> dict[DType, Footprint]:
    """Returns the bytes of tensors in every dtype of ``PLAN_DTYPES``. ``specs``: with each, whether it is a weight.

    Only floats change. A row-major tensor is bfloat16 in the plans of block floats, which exist in tile layout only. Whether
    the calls that use the tensors take the dtype is not checked here; ``plan_call`` does that.
    """
    footprints = dict.fromkeys(PLAN_DTYPES, Footprint())
    for spec, is_weight in specs:
        for dtype in PLAN_DTYPES:
            role = Role.WEIGHT if is_weight else Role.RESULT
            footprints[dtype] = footprints[dtype].plus(_spec_in(spec, dtype), board, role)
    return footprints


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
    """``case``: the call with dtype ``wanted``, or with another one, for the reason ``kept``."""

    wanted: DType
    case: Case
    kept: str
    tensors: tuple[PlannedTensor, ...]
    estimate: MemoryEstimate

    @property
    def dtype(self) -> DType:
        """Of the planned call."""
        return self.case.placement.dtype

    @property
    def unsaved(self) -> str:
        """Why the call, or a result, has another dtype than ``wanted``; empty where all is ``wanted``."""
        results = [t.allocation.spec.dtype for t in self.tensors if t.role is Role.RESULT]
        other = [str(dtype) for dtype in results if dtype in _FLOATS and dtype is not self.wanted]
        given = "the call requests" if self.case.placement.output_dtype else "TTNN takes it, but gives"
        return self.kept or (f"{given} {other[0]}" if other else "")

    @property
    def allocated_bytes(self) -> int:
        """Of all tensors but views."""
        return sum(t.allocation.allocated_bytes for t in self.tensors if t.role is not Role.VIEW)

    def footprint(self, board: Board, calls: int = 1) -> Footprint:
        """Returns the weights and results of ``calls`` such calls. Other operands are counted as results of other calls."""
        total = Footprint()
        for tensor in self.tensors:
            if tensor.role in (Role.WEIGHT, Role.BATCH_NORM, Role.RESULT):
                total = total.plus(tensor.allocation.spec, board, tensor.role, calls)
        return total


@dataclass(frozen=True)
class CallPlan:
    """A call as ``given``, and in every dtype of ``PLAN_DTYPES``."""

    board: Board
    given: DTypePlan
    plans: Mapping[DType, DTypePlan]

    @property
    def case(self) -> Case:
        return self.given.case

    @property
    def exceeds(self) -> bool:
        """Whether it exceeds in bfloat16."""
        return self.plans[DType.BFLOAT16].estimate.verdict is Prediction.EXCEEDS

    @property
    def always_exceeds(self) -> bool:
        return all(plan.estimate.verdict is Prediction.EXCEEDS for plan in self.plans.values())

    @property
    def fixed_by(self) -> list[DTypePlan]:
        """For a call that exceeds in bfloat16, the plans whose tensors fit; an ``unknown`` among them needs a probe."""
        if not self.exceeds:
            return []
        return [plan for plan in self.plans.values() if plan.estimate.verdict is not Prediction.EXCEEDS]


def plan_call(case: Case, board: Board, weights: Sequence[bool] = ()) -> CallPlan:
    """Plans ``case`` in every dtype. ``weights``: for each operand, whether it is a weight; missing ones are not.

    Raises:
        InvalidCase: operands, attributes or shapes do not go together.
    """
    specs_of(case, board)
    plans = {dtype: _plan(dtype, *_in_dtype(case, dtype, board), board, weights) for dtype in PLAN_DTYPES}
    return CallPlan(board, _plan(case.placement.dtype, case, "", board, weights), plans)


def _plan(wanted: DType, case: Case, kept: str, board: Board, weights: Sequence[bool]) -> DTypePlan:
    call = bind(case, board)
    operands, results = call.specs()
    traits = call.info.traits
    is_view = traits.in_place or (traits.alias is not None and traits.alias(operands, results))
    flags = [*weights, *[False] * (len(operands) - len(weights))]
    prepared = prepared_weights(call)
    resident = Role.BATCH_NORM if call.info.name in _BATCH_NORMS else Role.WEIGHT
    tensors = [
        PlannedTensor(resident if is_weight else Role.OPERAND, Allocation.of(f"input {i + 1}", prepared.get(i, spec), board))
        for i, (spec, is_weight) in enumerate(zip(operands, flags, strict=True))
    ]
    for number, spec in enumerate(results, 1):
        label = "output" if len(results) == 1 else f"output {number}"
        tensors.append(PlannedTensor(Role.VIEW if is_view else Role.RESULT, Allocation.of(label, spec, board)))
    return DTypePlan(wanted, case, kept, tuple(tensors), estimate(case, board))


def _in_dtype(case: Case, wanted: DType, board: Board) -> tuple[Case, str]:
    """Returns the call in ``wanted``, or in the dtype that it keeps, with the reason."""
    if case.placement.dtype not in _FLOATS:
        return case, f"its tensors hold whole numbers ({case.placement.dtype})"
    kept = ""
    if case.operator in CONVOLUTIONS and wanted is DType.BFLOAT4_B:
        narrow, reason = _in_dtype(case, DType.BFLOAT8_B, board)
        if not reason:
            return replace(narrow, attrs={**narrow.attrs, WEIGHTS_DTYPE: wanted.value}), _SMALL_MAPS
    for dtype in dict.fromkeys((wanted, DType.BFLOAT16)):
        layout = Layout.TILE if dtype.is_block_float else case.placement.layout
        changed = replace(case, placement=replace(case.placement, dtype=dtype, layout=layout))
        reason = _rejection(changed, board)
        if not reason:
            return changed, kept
        kept = kept or reason
    return case, kept


def _rejection(case: Case, board: Board) -> str:
    """Returns why the call is invalid or known to be rejected by TTNN; empty where it is neither."""
    call = bind(case, board)
    try:
        call.specs()
    except InvalidCase as error:
        return f"its tensors are not all in tiles: {error}" if case.placement.dtype.is_block_float else str(error)
    return next((x.reason for x in call.limitations(board)), "")
