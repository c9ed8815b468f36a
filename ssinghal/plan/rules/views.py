"""Changes the shape and order of elements without a call where possible."""

from __future__ import annotations

import math

from ssinghal.core.tensors import Layout
from ssinghal.operators import named
from ssinghal.operators.operator_info import normal_dim
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.base import Work, declared_call


def view(work: Work) -> list[HeldTensor]:
    """Gives the elements another shape: free, unless their order on the device prevents it."""
    x, shape = work.operand(0), work.shapes[0]
    axes = x.axes.viewed(shape)
    if axes is None:
        work.ops.to_torch_order(x, Layout.ROW_MAJOR)
        axes = AxisLayout.plain(shape)
    return [HeldTensor(x.tensor, axes)]


PERMUTE, T = named("permute t")


def permute(work: Work) -> list[HeldTensor]:
    """Permutes the dims, which is free."""
    x, attrs = work.operand(0), work.attrs
    rank = len(x.axes.dims)
    if work.planned.operator == PERMUTE:
        dims = [normal_dim(d, rank) for d in attrs["dims"]]
    elif work.planned.operator == T:
        dims = list(reversed(range(rank)))
    else:
        a, b = normal_dim(attrs["dim0"], rank), normal_dim(attrs["dim1"], rank)
        dims = [b if d == a else a if d == b else d for d in range(rank)]
    return [HeldTensor(x.tensor, x.axes.permuted(dims))]


def unchanged(work: Work) -> list[HeldTensor]:
    """Returns the operand itself, where torch copies it only for another order of its elements."""
    x = work.operand(0)
    return [HeldTensor(x.tensor, x.axes)]


def dropout(work: Work) -> list[HeldTensor]:
    """Calls dropout in training; otherwise it is the identity."""
    return declared_call(work) if work.attrs["train"] and work.attrs["p"] else unchanged(work)


def expand(work: Work) -> list[HeldTensor]:
    """Expands dims of size 1; without such it is a view."""
    return view(work) if math.prod(work.shapes[0]) == work.operand(0).axes.volume else declared_call(work)
