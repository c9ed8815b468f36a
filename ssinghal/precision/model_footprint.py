"""Bytes of a model's weights and results in each dtype, operator by operator, from its captured catalog. Arithmetic alone.

A catalog has calls, not tensors that live from one to the next: weights are counted once for each call that takes them, and
activations once, by the call whose result they are. So the sums say what a dtype saves, not what is alive at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.schema import CapturedCatalog, CapturedLine, Catalog
from ssinghal.core.case import Case
from ssinghal.core.tensors import Board, BufferType, DType
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import Prediction
from ssinghal.precision.footprint import PLAN_DTYPES, CallPlan, Footprint, Role, plan_call

_NOTHING = Footprint()


@dataclass(frozen=True)
class PlannedCall:
    """A line of the catalog: ``calls`` equal calls, the first of them ``at`` this module."""

    plan: CallPlan
    calls: int
    at: str

    @property
    def weight_values(self) -> int:
        """Elements of the weights of all its calls."""
        tensors = self.plan.given.tensors
        return self.calls * sum(t.allocation.spec.volume for t in tensors if t.role is Role.WEIGHT)


@dataclass(frozen=True)
class OperatorPlan:
    """All lines of one operator."""

    operator: str
    lines: tuple[PlannedCall, ...]

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @cached_property
    def given(self) -> Footprint:
        """As captured."""
        return sum((line.plan.given.footprint(line.plan.board, line.calls) for line in self.lines), _NOTHING)

    @cached_property
    def footprints(self) -> Mapping[DType, Footprint]:
        def of(dtype: DType) -> Footprint:
            return sum((line.plan.plans[dtype].footprint(line.plan.board, line.calls) for line in self.lines), _NOTHING)

        return {dtype: of(dtype) for dtype in PLAN_DTYPES}

    def saved_bytes(self, dtype: DType) -> int:
        """Against bfloat16; negative where that is what the calls do not take."""
        return self.footprints[DType.BFLOAT16].total_bytes - self.footprints[dtype].total_bytes

    def exceeding(self, dtype: DType) -> int:
        """Lines that cannot fit."""
        return sum(line.plan.plans[dtype].estimate.verdict is Prediction.EXCEEDS for line in self.lines)

    def unsaved(self, dtype: DType) -> Counter[str]:
        """Why lines are not all in the dtype, with how many each reason is true of."""
        return Counter(filter(None, (line.plan.plans[dtype].unsaved for line in self.lines)))


@dataclass(frozen=True)
class ModelPlan:
    """``operators``: what bfloat8_b saves most first. ``params``: of the model. ``unmapped``: calls that are no cases, so that
    they are not counted, by reason."""

    catalog: str
    title: str
    board: Board
    params: int
    operators: tuple[OperatorPlan, ...]
    unmapped: Mapping[str, int]

    @property
    def lines(self) -> Iterator[PlannedCall]:
        return (line for operator in self.operators for line in operator.lines)

    @property
    def weight_values(self) -> int:
        """Elements of all weights, counted once for each call that takes them."""
        return sum(line.weight_values for line in self.lines)

    @property
    def given(self) -> Footprint:
        return sum((o.given for o in self.operators), _NOTHING)

    def footprint(self, dtype: DType) -> Footprint:
        return sum((o.footprints[dtype] for o in self.operators), _NOTHING)

    def exceeding(self, dtype: DType) -> int:
        return sum(o.exceeding(dtype) for o in self.operators)

    @property
    def failing(self) -> list[PlannedCall]:
        """Lines that cannot fit in bfloat16."""
        return [line for line in self.lines if line.plan.exceeds]

    @property
    def always_exceeds(self) -> bool:
        """Whether some line fits in none of the dtypes."""
        return any(line.plan.always_exceeds for line in self.lines)


def plan_model(catalog: Catalog, board: Board, memory: BufferType | None = None) -> ModelPlan:
    """The plan of a captured catalog's calls, placed in ``memory`` where that is not the catalog's own.

    Raises:
        InvalidCase: a catalog that is no model's: its lines do not say which operands are weights.
    """
    if not isinstance(catalog, CapturedCatalog):
        raise InvalidCase(f"{catalog.name} is a {catalog.head.kind} catalog; expected a captured one, which names weights")
    lines: dict[str, list[PlannedCall]] = {}
    unmapped: Counter[str] = Counter()
    for line, found in _lines(catalog):
        if isinstance(found, Unmapped):
            unmapped[found.reason] += found.count
        else:
            lines.setdefault(found.operator, []).append(_planned(line, found, board, memory))
    operators = [OperatorPlan(name, tuple(planned)) for name, planned in lines.items()]
    operators.sort(key=lambda o: (-o.saved_bytes(DType.BFLOAT8_B), o.operator))
    return ModelPlan(catalog.name, catalog.title, board, catalog.head.model.params, tuple(operators), unmapped)


def _lines(catalog: CapturedCatalog) -> Iterator[tuple[CapturedLine, Case | Unmapped]]:
    """Every line with its case, in the file's order."""
    lines = (line for section in catalog.sections.values() for line in section)
    return zip(lines, catalog_cases(catalog), strict=True)


def _planned(line: CapturedLine, case: Case, board: Board, memory: BufferType | None) -> PlannedCall:
    if memory is not None:
        case = replace(case, placement=replace(case.placement, memory=memory))
    # An overload that is run as another one keeps its first operands, in their order
    weights = [name in line.w for name, _ in line.operands()][: len(case.inputs)]
    return PlannedCall(plan_call(case, board, weights), line.n, line.at)
