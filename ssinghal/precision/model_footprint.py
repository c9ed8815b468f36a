"""Computes the bytes of a model's weights and results in each dtype, per operator, from its captured catalog.

A catalog holds calls, not the lifetimes of tensors: weights are counted once for each call that takes them, activations once,
as results. So the sums show what a dtype saves, not what is live at the same time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.captured import CapturedCatalog, CapturedLine
from ssinghal.catalog.expansion import catalog_cases
from ssinghal.catalog.schema import Catalog
from ssinghal.core.case import AS_CASE, Case, OperandPlacement, Source
from ssinghal.core.estimate import Prediction
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.tensors import Board, DType
from ssinghal.errors import InvalidCase
from ssinghal.precision.footprint import PLAN_DTYPES, CallPlan, Footprint, Role, plan_call

_NOTHING = Footprint()


@dataclass(frozen=True)
class PlannedCall:
    """A line of the catalog: ``calls`` equal calls, made where ``source`` names."""

    plan: CallPlan
    calls: int
    source: Source

    @property
    def weight_values(self) -> int:
        """Elements of the weights of all its calls, as the model has them."""
        given = self.plan.given
        operands = zip(given.tensors, given.case.inputs, strict=False)
        return self.calls * sum(math.prod(shape) for tensor, shape in operands if tensor.role in (Role.WEIGHT, Role.BATCH_NORM))


@dataclass(frozen=True)
class OperatorPlan:
    """The catalog lines of one operator."""

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
        """Compared with bfloat16; negative where the calls do not take bfloat16."""
        return self.footprints[DType.BFLOAT16].total_bytes - self.footprints[dtype].total_bytes

    def exceeding(self, dtype: DType) -> int:
        """Returns the number of lines that do not fit."""
        return sum(line.plan.plans[dtype].estimate.verdict is Prediction.EXCEEDS for line in self.lines)

    def unsaved(self, dtype: DType) -> Counter[str]:
        """Returns the reasons why lines are not in the dtype, with the number of lines."""
        return Counter(filter(None, (line.plan.plans[dtype].unsaved for line in self.lines)))


@dataclass(frozen=True)
class ModelPlan:
    """``operators``: those with the largest savings in bfloat8_b first. ``params``: of the model. ``unmapped``: calls without a
    case, which are not counted, by reason."""

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
        """Elements of all weights, once for each call that takes them."""
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
        """Lines that do not fit in bfloat16."""
        return [line for line in self.lines if line.plan.exceeds]

    @property
    def always_exceeds(self) -> bool:
        """Whether some line fits in none of the dtypes."""
        return any(line.plan.always_exceeds for line in self.lines)


def plan_model(catalog: Catalog, board: Board, memory: MemoryRequest | None = None) -> ModelPlan:
    """Plans a captured catalog's calls, placed in ``memory``, or where the catalog places them.

    With shards, weights stay in DRAM, and calls that no such shards hold are not counted.

    Raises:
        InvalidCase: the catalog is not captured from a model, so its lines do not mark weights.
    """
    if not isinstance(catalog, CapturedCatalog):
        raise InvalidCase(f"{catalog.name} is a {catalog.head.kind} catalog; expected a captured one, which names weights")
    lines: dict[str, list[PlannedCall]] = {}
    unmapped: Counter[str] = Counter()
    for line, case in _lines(catalog):
        if isinstance(case, Unmapped):
            unmapped[case.reason] += case.count
        else:
            try:
                planned = _planned(line, case, board, memory)
            except InvalidCase as error:
                if memory is None or memory.sharding is None:
                    raise
                unmapped[str(error)] += line.n
                continue
            lines.setdefault(case.operator, []).append(planned)
    operators = [OperatorPlan(name, tuple(calls)) for name, calls in lines.items()]
    operators.sort(key=lambda o: (-o.saved_bytes(DType.BFLOAT8_B), o.operator))
    return ModelPlan(catalog.name, catalog.title, board, catalog.head.model.params, tuple(operators), unmapped)


def _lines(catalog: CapturedCatalog) -> Iterator[tuple[CapturedLine, Case | Unmapped]]:
    """Returns every line with its case, in the order of the file."""
    lines = (line for section in catalog.sections.values() for line in section)
    return zip(lines, catalog_cases(catalog), strict=True)


def _planned(line: CapturedLine, case: Case, board: Board, memory: MemoryRequest | None) -> PlannedCall:
    # An overload that is run as another one keeps its first operands, in their order
    weights = [name in line.w for name, _ in line.operands()][: len(case.inputs)]
    if memory is not None:
        kept = OperandPlacement(memory=MemoryRequest()) if memory.sharding else AS_CASE
        operands = tuple(kept if is_weight else AS_CASE for is_weight in weights) if any(weights) and memory.sharding else ()
        placement = replace(case.placement, memory=memory.buffer, sharding=memory.sharding, operands=operands)
        case = replace(case, placement=placement)
    return PlannedCall(plan_call(case, board, weights), line.n, case.sources[0])
