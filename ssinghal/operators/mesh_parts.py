"""The call that each chip of a mesh makes, where operands are cut over the chips."""

from __future__ import annotations

from dataclasses import replace

from ssinghal.core.case import AS_CASE, Case
from ssinghal.core.mesh import Mesh, part_of
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase


def on_each_chip(case: Case, mesh: Mesh) -> Case:
    """Returns the call with the parts that a chip of ``mesh`` holds, and with nothing cut; ``case`` itself where nothing is.

    Attributes stay as they are: every chip makes the same call on its part.

    Raises:
        InvalidCase: An operand cannot be cut so.
    """
    placement = case.placement
    if not placement.is_cut:
        return case
    operands = [replace(operand, shard_dim=None) for operand in placement.operands]
    while operands and operands[-1] == AS_CASE:
        operands.pop()
    parts = tuple(_part(case, position, mesh) for position in range(len(case.inputs)))
    return replace(case, inputs=parts, placement=replace(placement, operands=tuple(operands)))


def _part(case: Case, position: int, mesh: Mesh) -> Shape:
    dim = case.placement.operand(position).shard_dim
    if dim is None:
        return case.inputs[position]
    try:
        return part_of(case.inputs[position], dim, mesh)
    except InvalidCase as error:
        raise InvalidCase(f"{case.name}: input {position + 1}: {error}") from None
