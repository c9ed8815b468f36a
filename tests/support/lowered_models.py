"""Lowers a complete model to calls of TTNN, and computes those in torch."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional as F

from ssinghal.capture.trace import Trace, Value, ValueKind
from ssinghal.core.boards import load_board
from ssinghal.core.tensors import TILE_EDGE, Layout
from ssinghal.operators.operator_info import PLACED_DTYPES
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedCall, PlannedStep, planned_steps
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placement import IN_DRAM, Choices, StepChoice
from ssinghal.plan.policy import Lifetime, PortingPolicy
from ssinghal.plan.rules.base import Work
from ssinghal.plan.step_run import placed_results
from ssinghal.plan.weights import PlacedWeight, PreparedWeights, ResidentWeights
from tests.support.real_traces import Recorded, Values, folded_bias, folded_weight
from tests.support.torch_ttnn import DTYPES, ROW_MAJOR, TILE, Tensor, TorchTTNN
from tests.support.ttnn_calls import NotedCall, Noting


class ValuedResidents(ResidentWeights):
    """Weights with their values, in the form that the calls take. Those of convolutions over maps stay as torch has them."""

    def __init__(self, session: Any, trace: Trace, values: Values, policy: PortingPolicy, choices: Choices) -> None:
        super().__init__(session, trace, choices=choices, activations=policy.activations)
        self._values = values

    def _prepare(self, *_: Any) -> tuple[Any, Any]:
        return None, None

    def _placed(self, weight: PlacedWeight) -> Tensor:
        values = self._values[weight.value]
        if weight.folded:
            is_weight, parts = values.dim() > 1, weight.folded
            values = folded_weight(values, parts, self._values) if is_weight else folded_bias(parts, self._values)
        if weight.features_inner is not None:
            values = values.unflatten(0, (-1, weight.features_inner)).transpose(0, 1).flatten(0, 1)
        if weight.transposed:
            values = values.mT
        if isinstance(weight.spec, PreparedWeights):
            return Tensor(values.clone())
        if self._is_of_volumes(weight):
            values = self._padded(values, weight)
        layout = TILE if weight.spec.layout is Layout.TILE else ROW_MAJOR
        return Tensor(values.reshape(weight.spec.shape).clone(), layout, DTYPES[weight.spec.dtype.value])

    def _is_of_volumes(self, weight: PlacedWeight) -> bool:
        reads = (s for s in self.trace.steps if s.overload == "aten.conv3d.default" and weight.value in s.inputs[1:])
        return next(reads, None) is not None

    def _padded(self, values: torch.Tensor, weight: PlacedWeight) -> torch.Tensor:
        """A weight as a matrix of positions x channels, dense over its groups, a bias as a row; channels in whole tiles."""
        missing = -values.shape[0] % TILE_EDGE
        if values.dim() == 1:
            return F.pad(values, (0, missing))
        step = next(s for s in self.trace.steps if weight.value in s.inputs[1:])
        groups, (out, channels, *kernel) = step.args.get("groups", 1), values.shape
        dense = torch.zeros(out, channels * groups, *kernel, dtype=values.dtype)
        for group, part in enumerate(values.chunk(groups)):
            rows, columns = group * len(part), group * channels
            dense[rows : rows + len(part), columns : columns + channels] = part
        return F.pad(dense, (0, 0) * 3 + (0, -dense.shape[1] % TILE_EDGE, 0, missing)).permute(2, 3, 4, 1, 0)


def run_in_torch(
    recorded: Recorded, policy: PortingPolicy, board: str = "n150", choices: Choices | None = None
) -> tuple[list[torch.Tensor], list[NotedCall]]:
    """Returns the results of the model as this policy runs it, in torch's order, and the calls that were made.

    Some layouts depend on the size of the board's banks. ``choices``: of steps. Where TTNN would choose the memory of a result,
    it is that of the first operand: the calls are then not those of a device in every detail, but must compute the same.
    """
    trace = rewritten(recorded.trace, policy)
    session = Noting(
        SimpleNamespace(
            ttnn=TorchTTNN(),
            device=None,
            board=load_board(board),
            memory_config=lambda config, ttnn=None: config,
            spec_of=lambda tensor: SimpleNamespace(memory=tensor.memory),
        )
    )
    ops, residents = LayoutOps(session, policy), ValuedResidents(session, trace, recorded.values, policy, choices or {})
    steps = planned_steps(trace)
    residents.decide_specs(steps)
    residents.place_all(steps)

    store = {
        number: _placed(value, recorded.values[number], policy)
        for number, value in enumerate(trace.values)
        if value.kind is ValueKind.INPUT
    }
    last = trace.last_use if policy.lifetime is Lifetime.LAST_USE else trace.last_object
    for planned in steps:
        dying = [n for n, step in last.items() if step == planned.number and n in {*store, *planned.results}]
        _step(planned, ops, residents, store, dying, (choices or {}).get(planned.number, IN_DRAM))

    return [_read(store[n]) for n in trace.results], session.calls


def _step(
    planned: PlannedStep,
    ops: LayoutOps,
    residents: ResidentWeights,
    store: dict[int, HeldTensor],
    dying: list[int],
    choice: StepChoice,
) -> None:
    assert isinstance(planned, PlannedCall), f"{planned.step.overload}: {planned.reason}"
    shapes = [residents.trace.values[n].shape for n in planned.results]
    results = placed_results(Work(planned, ops, residents, store, shapes, frozenset(dying)), choice)
    for number, x, shape in zip(planned.results, results, shapes, strict=False):
        assert x.axes.shape == shape, (planned.step, x.axes)
        assert math.prod(x.shape) == x.axes.volume
        store[number] = x
    for number in dying:
        store.pop(number, None)


def _placed(value: Value, values: torch.Tensor, policy: PortingPolicy) -> HeldTensor:
    """Places maps channels-last in rows, everything else in torch's order in tiles."""
    dtype = DTYPES[PLACED_DTYPES[value.dtype].value]
    if policy.lazy_views and len(value.shape) == 4:
        rows = values.permute(0, 2, 3, 1).reshape(1, 1, -1, value.shape[1]).clone()
        return HeldTensor(Tensor(rows, ROW_MAJOR, dtype), AxisLayout.plain(value.shape, (0, 2, 3, 1)))
    return HeldTensor(Tensor(values.reshape(value.shape or (1,)).clone(), TILE, dtype), AxisLayout.plain(value.shape))


def _read(x: HeldTensor) -> torch.Tensor:
    """Returns the values in the order of the dims, from the order of the atoms on the device."""
    axes = x.axes
    atoms = x.tensor.values.reshape([axes.sizes[a] for a in axes.order])
    wanted = axes.atoms_of(range(len(axes.dims)))
    return atoms.permute([axes.order.index(a) for a in wanted]).reshape(axes.shape)


__all__ = ["ValuedResidents", "run_in_torch"]
