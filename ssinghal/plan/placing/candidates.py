"""Offers the ways of calling a step that are worth a try, given how its operands are held. Nothing is tried here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ssinghal.core.tensors import Board
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import StepChoice
from ssinghal.plan.placing import convolution_offers, map_offers, product_offers
from ssinghal.plan.placing.offers import Offer, Operands, interleaved, port_choice

OFFERS: Mapping[str, Offer] = {**product_offers.OFFERS, **map_offers.OFFERS, **convolution_offers.OFFERS}


def offered(planned: PlannedCall, operands: Operands, board: Board) -> Sequence[StepChoice]:
    """Returns the choices for a step, each once; the one of the policy ``port``, all in DRAM, is always among them."""
    offer = OFFERS.get(planned.operator, interleaved)
    return list(dict.fromkeys([port_choice(operands), *offer(planned, operands, board)]))
