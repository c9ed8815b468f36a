"""Moves the tensors in L1 together, so that what is free between them becomes one block."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.plan.layout_ops import HeldTensor, LayoutOps


def compact(ops: LayoutOps, store: Mapping[int, HeldTensor]) -> None:
    """Moves each tensor in L1 to the highest free place, the highest first, as ``ttnn.reallocate`` does.

    Values that share a buffer share it afterwards.
    """
    sharing: dict[int, list[HeldTensor]] = {}
    for x in store.values():
        if x.tensor.is_allocated() and ops.is_in_l1(x):
            sharing.setdefault(int(x.tensor.buffer_address()), []).append(x)
    for _, values in sorted(sharing.items(), reverse=True):
        if len({x.shape for x in values}) > 1:
            continue  # views of another shape would keep the old buffer
        ops.doing = f"reallocate {list(values[0].shape)}"
        moved = ops.ttnn.reallocate(values[0].tensor)
        for x in values:
            x.tensor = moved
