"""Calls on each element, with operands that are broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ssinghal.core.tensors import Layout, Shape
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps, padding_factor
from ssinghal.plan.rules.base import WIDE, Work, device_dims


def unary(work: Work) -> list[HeldTensor]:
    """On the device tensor as it lies; tiled, unless that takes several times the bytes."""
    x = work.operand(0)
    work.hand.cast(x, work.case.placement.dtype)
    shape = x.shape
    rows = (1, 1, math.prod(shape[:-1]), shape[-1])
    takes_rows = Layout.ROW_MAJOR in work.planned.info.layouts
    layout = Layout.ROW_MAJOR if takes_rows and padding_factor(rows) > WIDE else Layout.TILE
    if work.hand.layout(x) is not layout and layout is Layout.TILE:
        work.hand.rows(x)
    (result,) = work.call([x.tensor], work.case.attrs, work.hand.layout(x))
    return [HeldTensor(result, x.form)]


def broadcast(work: Work) -> list[HeldTensor]:
    """All operands in the order of the first one that has the shape of the result, on the device as that one lies."""
    hand, shape = work.hand, work.shapes[0]
    operands = [work.operand(i) for i in range(work.count)]
    if work.count == 1:
        return unary(work)
    leads = [x for i, x in enumerate(operands) if x.form.shape == shape and not work.is_resident(i)]
    if not leads:
        return _broadcast_plain(work, operands)
    lead = next((x for x in leads if x.form.device_dims() is not None), leads[0])
    order = device_dims(work, lead)
    for x in operands:
        hand.cast(x, work.case.placement.dtype)
    hand.rows(lead)
    if not all(_fits(x.form, shape, lead.shape, order) for x in operands):
        hand.arrange(lead, order, tuple(shape[d] for d in order), Layout.TILE)
        lead = replace(lead)
    for x in operands:
        if x is not lead:
            _follow(hand, x, shape, lead.shape, order)
    (result,) = work.call([x.tensor for x in operands], work.case.attrs)
    return [HeldTensor(result, lead.form)]


def _aligned(form: AxisLayout, shape: Shape) -> AxisLayout:
    """With as many dims as the result."""
    return replace(form, dims=((),) * (len(shape) - len(form.dims)) + form.dims)


def _pattern(form: AxisLayout, shape: Shape, device: Shape, order: Sequence[int]) -> list[int] | None:
    """The device shape of an operand that is broadcast to ``shape``, which lies as ``device``; None where a dim of that device
    tensor would be broadcast in part."""
    sizes = _aligned(form, shape).shape
    result: list[int] = []
    left = [d for d in order if shape[d] != 1]
    for size in device:
        taken: list[int] = []
        while math.prod(shape[d] for d in taken) < size and left:
            taken.append(left.pop(0))
        own = math.prod(sizes[d] for d in taken)
        if math.prod(shape[d] for d in taken) != size or own not in (1, size):
            return None
        result.append(own)
    return result


def _fits(form: AxisLayout, shape: Shape, device: Shape, order: Sequence[int]) -> bool:
    return _pattern(form, shape, device, order) is not None


def _follow(hand: LayoutOps, x: HeldTensor, shape: Shape, device: Shape, order: Sequence[int]) -> None:
    wanted = _pattern(x.form, shape, device, order)
    assert wanted is not None
    form, missing = x.form, len(shape) - len(x.form.dims)
    dims = [d - missing for d in order if d >= missing]
    assert len(dims) == len(form.dims)
    hand.arrange(x, dims, tuple(wanted), Layout.TILE)


def _broadcast_plain(work: Work, operands: Sequence[HeldTensor]) -> list[HeldTensor]:
    for x in operands:
        work.hand.cast(x, work.case.placement.dtype)
        work.hand.plain(x)
    (result,) = work.call([x.tensor for x in operands], work.case.attrs)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0]))]
