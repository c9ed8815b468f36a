"""Makes calls on each element, with operands that are broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import Layout, Shape
from ssinghal.operators import named
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, padding_factor
from ssinghal.plan.rules.base import WIDE, Work, device_dims

ARITHMETIC = frozenset(named("add sub mul div"))


def unary(work: Work) -> list[HeldTensor]:
    """Makes a call on the device tensor as it is, in tiles unless those take several times the bytes."""
    x = work.operand(0)
    work.as_float(x)
    shape = x.shape
    rows = (1, 1, math.prod(shape[:-1]), shape[-1])
    takes_rows = Layout.ROW_MAJOR in work.planned.info.layouts
    layout = Layout.ROW_MAJOR if takes_rows and padding_factor(rows) > WIDE else Layout.TILE
    if work.ops.layout(x) is not layout and layout is Layout.TILE:
        work.ops.to_rows(x)
    (result,) = work.call([work.ready(0, x)], work.case.attrs, work.ops.layout(x))
    return [HeldTensor(result, x.axes)]


def broadcast(work: Work) -> list[HeldTensor]:
    """Makes a call with all operands in the order of the first one that has the shape of the result."""
    ops, shape = work.ops, work.shapes[0]
    operands = [work.operand(i) for i in range(work.count)]
    if work.count == 1:
        return unary(work)
    leads = [x for i, x in enumerate(operands) if x.axes.shape == shape and not work.is_resident(i)]
    if not leads:
        return _broadcast_plain(work, operands)
    lead = next((x for x in leads if x.axes.device_dims() is not None), leads[0])
    order = device_dims(work, lead)
    for x in operands:
        work.as_float(x)
    ops.to_rows(lead)
    targets = [_device_shape(x.axes.shape, shape, lead.shape, order) for x in operands]
    if None in targets:
        ops.arrange(lead, order, tuple(shape[d] for d in order), Layout.TILE)
        lead = replace(lead)
        targets = [_device_shape(x.axes.shape, shape, lead.shape, order) for x in operands]
    for x, target in zip(operands, targets, strict=True):
        if x is not lead and target is not None:
            missing = len(shape) - len(x.axes.dims)
            ops.arrange(x, [d - missing for d in order if d >= missing], target, Layout.TILE)
    return [HeldTensor(_called(work, operands), lead.axes)]


def _device_shape(operand: Shape, shape: Shape, device: Shape, order: Sequence[int]) -> Shape | None:
    """Returns the device shape of an operand that is broadcast to ``shape``, a device tensor of shape ``device``.

    None where a dim of that device tensor would be broadcast in part.
    """
    sizes = (*[1] * (len(shape) - len(operand)), *operand)
    result: list[int] = []
    remaining = [d for d in order if shape[d] != 1]
    for size in device:
        taken: list[int] = []
        while math.prod(shape[d] for d in taken) < size and remaining:
            taken.append(remaining.pop(0))
        own = math.prod(sizes[d] for d in taken)
        if math.prod(shape[d] for d in taken) != size or own not in (1, size):
            return None
        result.append(own)
    return tuple(result)


def _broadcast_plain(work: Work, operands: Sequence[HeldTensor]) -> list[HeldTensor]:
    for x in operands:
        work.as_float(x)
        work.ops.to_torch_order(x)
    return [HeldTensor(_called(work, operands), AxisLayout.plain(work.shapes[0]))]


def _called(work: Work, operands: Sequence[HeldTensor]) -> Any:
    """Calls the operator. Arithmetic takes constants in another dtype than activations; other calls get them converted."""
    is_mixed = work.planned.operator in ARITHMETIC
    for x in operands if not is_mixed else ():
        work.in_call_dtype(x)
    arguments = work.result_dtype if is_mixed and work.is_resident(0) else {}
    (result,) = work.call([work.ready(i, x) for i, x in enumerate(operands)], work.case.attrs, **arguments)
    return result
