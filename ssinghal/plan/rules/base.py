"""One step to be done, and what is not known otherwise: the registry's own call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import Layout, Shape
from ssinghal.operators import make_case
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedStep
from ssinghal.plan.weights import ResidentWeights

WIDE = 2.0  # tiles that take more than this many times their elements are not made where rows do as well


@dataclass
class Work:
    """One step to be done. ``held``: its activations, by value; ``shapes``: of its results; ``dies``: values that nobody reads
    after it."""

    planned: PlannedStep
    hand: LayoutOps
    residents: ResidentWeights
    held: Mapping[int, HeldTensor]
    shapes: Sequence[Shape]
    dies: frozenset[int] = frozenset()

    @property
    def case(self) -> Case:
        assert self.planned.case is not None
        return self.planned.case

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.planned.attrs

    @property
    def count(self) -> int:
        return len(self.planned.operands)

    def is_resident(self, position: int) -> bool:
        return self.planned.operands[position] not in self.held

    def operand(self, position: int) -> HeldTensor:
        """To be converted at will: in place of the value where the policy says so, else beside it."""
        if self.is_resident(position):
            return self.residents.held(self.planned, position)
        held = self.held[self.planned.operands[position]]
        return held if self.hand.policy.replace_on_conversion else replace(held)

    def is_shared(self, tensor: Any) -> bool:
        """Whether another value than the first operand lies in its buffer, so that it must not be written over. What torch
        copies may be such a value: here it lies as it lies."""
        others = [held.tensor for number, held in self.held.items() if number != self.planned.operands[0]]
        weights = [] if self.is_resident(0) else self.residents.tensors.values()
        address = tensor.buffer_address()
        return any(other.buffer_address() == address for other in (*others, *weights))

    def placement(self, layout: Layout) -> Placement:
        return replace(self.case.placement, layout=layout, channels_last=False)

    def call(self, tensors: Sequence[Any], attrs: Mapping[str, Any], layout: Layout = Layout.TILE) -> list[Any]:
        """The registry's call on tensors of these shapes, with the results in DRAM."""
        shapes = tuple(tuple(t.shape) for t in tensors)
        return self.run(bind(make_case(self.planned.operator, shapes, attrs, self.placement(layout))), tensors)

    def run(self, call: BoundCall, tensors: Sequence[Any]) -> list[Any]:
        info, hand = call.info, self.hand
        if info.traits.in_place and self.is_shared(tensors[0]):
            hand.doing = "ttnn.clone"
            tensors = [hand.ttnn.clone(tensors[0], **hand.in_dram), *tensors[1:]]
        hand.doing = info.ttnn
        return call.run(hand.ttnn, hand.session.device, tensors, hand.in_dram)


Rule = Callable[[Work], list[HeldTensor]]


def registry(work: Work) -> list[HeldTensor]:
    """Operands as the operator declares them, its results as it returns them: in torch's order, or channels-last for maps."""
    hand, info = work.hand, work.planned.info
    tensors = []
    for position, spec in enumerate(work.planned.call.inputs):
        if work.is_resident(position):
            tensors.append(work.residents.tensor(work.planned, position))
            continue
        x = work.operand(position)
        rank = len(x.form.dims)
        order = channels_last(rank) if info.traits.nhwc and position == 0 else range(rank)
        if position in info.traits.transposed:
            order = [*range(rank - 2), rank - 1, rank - 2]
        hand.cast(x, spec.dtype)
        hand.arrange(x, order, spec.shape, spec.layout)
        tensors.append(x.tensor)
    results = work.run(work.planned.call, tensors)
    last = bool(info.traits.nhwc)
    forms = [AxisLayout.plain(s, channels_last(len(s)) if last else range(len(s))) for s in work.shapes]
    return [HeldTensor(tensor, form) for tensor, form in zip(results, forms, strict=False)]


def channels_last(rank: int) -> Sequence[int]:
    return (0, *range(2, rank), 1) if rank > 2 else range(rank)


def device_dims(work: Work, x: HeldTensor) -> list[int]:
    """The order of its dims on the device. Where their atoms are mixed, one is made: what lies last stays last."""
    order = x.form.device_dims()
    if order is None:
        last = next(d for d, atoms in enumerate(x.form.dims) if x.form.order[-1] in atoms)
        order = [*(d for d in range(len(x.form.dims)) if d != last), last]
        work.hand.arrange(x, order, layout=Layout.ROW_MAJOR)
    return order
