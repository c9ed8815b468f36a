"""Offers the ways of calling products of matrices, normalizations, attention, element-wise operators and views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ssinghal.core.tensors import Board
from ssinghal.operators import named
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import L1, StepChoice
from ssinghal.plan.placing.offers import Offer, Operands, like_operand


def view(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Views make no call, unless the order of the elements prevents them; then in L1 as well."""
    yield StepChoice(memory=L1)
    yield StepChoice(moves=tuple((position, L1) for position in operands), memory=L1)


OFFERS: Mapping[str, Offer] = {
    **dict.fromkeys(named("relu silu sigmoid gelu hardswish add sub mul div"), like_operand),
    **dict.fromkeys(named("view flatten unflatten unsqueeze squeeze permute transpose t clone identity dropout"), view),
}
