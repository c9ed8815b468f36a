"""Other shapes and orders of the same elements."""

from __future__ import annotations

import math

from ssinghal.core.tensors import Layout
from ssinghal.operators import named
from ssinghal.operators.operator_info import normal_dim
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.base import Work, registry


def view(work: Work) -> list[HeldTensor]:
    """Another shape of the same elements: free, unless the order on the device stands against it."""
    x, shape = work.operand(0), work.shapes[0]
    form = x.form.viewed(shape)
    if form is None:
        work.hand.plain(x, Layout.ROW_MAJOR)
        form = AxisLayout.plain(shape)
    return [HeldTensor(x.tensor, form)]


PERMUTE, T = named("permute t")


def permute(work: Work) -> list[HeldTensor]:
    x, attrs = work.operand(0), work.attrs
    rank = len(x.form.dims)
    if work.planned.operator == PERMUTE:
        dims = [normal_dim(d, rank) for d in attrs["dims"]]
    elif work.planned.operator == T:
        dims = list(reversed(range(rank)))
    else:
        a, b = normal_dim(attrs["dim0"], rank), normal_dim(attrs["dim1"], rank)
        dims = [b if d == a else a if d == b else d for d in range(rank)]
    return [HeldTensor(x.tensor, x.form.permuted(dims))]


def same(work: Work) -> list[HeldTensor]:
    """What torch copies to have it in another order: on the device it lies as it lies."""
    x = work.operand(0)
    return [HeldTensor(x.tensor, x.form)]


def dropout(work: Work) -> list[HeldTensor]:
    """Outside training it is the identity."""
    return registry(work) if work.attrs["train"] and work.attrs["p"] else same(work)


def expand(work: Work) -> list[HeldTensor]:
    return view(work) if math.prod(work.shapes[0]) == work.operand(0).form.volume else registry(work)
