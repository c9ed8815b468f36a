"""Defines the work of a step, and the rule for operators without another one: the operator's own call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import DType, Layout, Shape
from ssinghal.operators import make_case
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.plan.activations import dtype_in_tiles
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.weights import ResidentWeights

WIDE = 2.0  # tiles that take more than this many times the bytes of their elements are avoided where rows work too


@dataclass
class Work:
    """One call to be made. ``activations``: those on the device, by value. ``shapes``: of its results. ``dies``: values that
    nobody reads after it."""

    planned: PlannedCall
    ops: LayoutOps
    residents: ResidentWeights
    activations: Mapping[int, HeldTensor]
    shapes: Sequence[Shape]
    dies: frozenset[int] = frozenset()

    @property
    def case(self) -> Case:
        return self.planned.case

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.planned.attrs

    @cached_property
    def dtype(self) -> DType:
        """The dtype in which the call gets its activations in tiles."""
        return dtype_in_tiles(self.planned, self.ops.policy.activations)

    @property
    def result_dtype(self) -> dict[str, Any]:
        """The argument for results in the policy's dtype of activations, whatever the first operand has; none without one."""
        own = self.dtype is self.case.placement.dtype
        return {} if own else {"dtype": getattr(self.ops.ttnn, self.dtype.value)}

    @property
    def count(self) -> int:
        return len(self.planned.operands)

    def is_resident(self, position: int) -> bool:
        return self.planned.operands[position] not in self.activations

    def operand(self, position: int) -> HeldTensor:
        """Returns an operand that may be converted: a conversion replaces the value if the policy does so, else is separate."""
        if self.is_resident(position):
            return self.residents.as_activation(self.planned, position)
        x = self.activations[self.planned.operands[position]]
        x = x if self.ops.policy.replace_on_conversion else replace(x)
        self.ops.spread(x, self.ops.choice.move_of(position))
        return x

    def as_float(self, x: HeldTensor) -> None:
        """Converts a tensor to the model's dtype; one in the policy's dtype of activations stays until it is ``ready``."""
        if self.ops.policy.activations is None or self.ops.dtype(x) is not self.ops.policy.activations:
            self.ops.cast(x, self.case.placement.dtype)

    def in_call_dtype(self, x: HeldTensor) -> None:
        """Converts a float tensor in tiles to the dtype of the call, where the policy has one of its own."""
        activations = self.ops.policy.activations
        is_float = self.ops.dtype(x) in (self.case.placement.dtype, activations)
        if activations is not None and is_float and self.ops.layout(x) is Layout.TILE:
            self.ops.cast(x, self.dtype)

    def ready(self, position: int, x: HeldTensor) -> Any:
        """Returns the tensor of an operand whose layout is that of the call, in its dtype, moved to the shards in which the
        call takes it. Weights and constants keep their dtype."""
        if not self.is_resident(position):
            self.in_call_dtype(x)
        self.ops.move(x, self.ops.choice.move_of(position))
        return x.tensor

    def dies_alone(self, position: int) -> bool:
        """Returns whether nobody reads the tensor of an operand after the call."""
        value = self.planned.operands[position]
        if value not in self.dies or value not in self.activations:
            return False
        address = self.activations[value].tensor.buffer_address()
        others = (x.tensor for number, x in self.activations.items() if number != value)
        return all(not other.is_allocated() or other.buffer_address() != address for other in others)

    def is_shared(self, tensor: Any) -> bool:
        """Returns whether a value other than the first operand has this buffer, so that it must not be overwritten.

        Such a value may be a copy in torch that costs nothing here.
        """
        others = [x.tensor for number, x in self.activations.items() if number != self.planned.operands[0]]
        weights = [] if self.is_resident(0) else self.residents.tensors.values()
        address = tensor.buffer_address()
        return any(other.is_allocated() and other.buffer_address() == address for other in (*others, *weights))

    def placement(self, layout: Layout) -> Placement:
        return replace(self.case.placement, layout=layout, channels_last=False)

    def call(
        self, tensors: Sequence[Any], attrs: Mapping[str, Any], layout: Layout = Layout.TILE, **arguments: Any
    ) -> list[Any]:
        """Calls the operator on tensors of these shapes, with the settings and the results' memory of the step's choice.

        ``arguments``: others that are about the results.
        """
        shapes = tuple(tuple(t.shape) for t in tensors)
        attrs = {**attrs, **self.ops.choice.settings_of_case}
        return self.run(bind(make_case(self.planned.operator, shapes, attrs, self.placement(layout))), tensors, **arguments)

    def configured(self, case: Case) -> BoundCall:
        """Returns a call with the settings of the step's choice."""
        settings = self.ops.choice.settings_of_case
        return bind(replace(case, attrs={**case.attrs, **settings}) if settings else case)

    def run(self, call: BoundCall, tensors: Sequence[Any], **arguments: Any) -> list[Any]:
        """Runs ``call`` on ``tensors``; an operator that writes in place gets a copy of a shared tensor."""
        info, ops = call.info, self.ops
        if info.traits.in_place and self.is_shared(tensors[0]):
            ops.doing = "ttnn.clone"
            tensors = [ops.ttnn.clone(tensors[0], memory_config=tensors[0].memory_config()), *tensors[1:]]
        ops.doing = info.ttnn
        return call.run(ops.ttnn, ops.session.device, tensors, {**ops.placed, **arguments})


Rule = Callable[[Work], list[HeldTensor]]


def declared_call(work: Work) -> list[HeldTensor]:
    """Calls the operator as declared; its results are in torch's order, or channels-last for maps."""
    ops, info = work.ops, work.planned.info
    tensors = []
    for position, spec in enumerate(work.planned.call.inputs):
        if work.is_resident(position):
            tensors.append(work.residents.tensor(work.planned, position))
            continue
        x = work.operand(position)
        rank = len(x.axes.dims)
        order = channels_last(rank) if info.traits.nhwc and position == 0 else range(rank)
        if position in info.traits.transposed:
            order = [*range(rank - 2), rank - 1, rank - 2]
        if spec.dtype is work.case.placement.dtype:
            work.as_float(x)
        else:
            ops.cast(x, spec.dtype)
        ops.arrange(x, order, spec.shape, _call_layout(work, x, spec.layout))
        tensors.append(work.ready(position, x))
    results = work.run(work.configured(work.case), tensors)
    last = bool(info.traits.nhwc)
    layouts = [AxisLayout.plain(s, channels_last(len(s)) if last else range(len(s))) for s in work.shapes]
    return [HeldTensor(tensor, axes) for tensor, axes in zip(results, layouts, strict=False)]


def _call_layout(work: Work, x: HeldTensor, layout: Layout) -> Layout:
    """Returns the layout in which a call takes a tensor: shards of rows, as pools leave them, stay rows where it takes such."""
    takes_rows = work.planned.info.traits.nhwc and Layout.ROW_MAJOR in work.planned.info.layouts
    is_row_major = work.ops.layout(x) is Layout.ROW_MAJOR
    return Layout.ROW_MAJOR if takes_rows and is_row_major and work.ops.is_sharded(x) else layout


def channels_last(rank: int) -> Sequence[int]:
    """Returns torch's dims in the order of a tensor with its channels last."""
    return (0, *range(2, rank), 1) if rank > 2 else range(rank)


def device_dims(work: Work, x: HeldTensor) -> list[int]:
    """Returns the order of the dims on the device; where their atoms are mixed, brings ``x`` into one, its last axis last."""
    order = x.axes.device_dims()
    if order is None:
        last = next(d for d, atoms in enumerate(x.axes.dims) if x.axes.order[-1] in atoms)
        order = [*(d for d in range(len(x.axes.dims)) if d != last), last]
        work.ops.arrange(x, order, layout=Layout.ROW_MAJOR)
    return order
