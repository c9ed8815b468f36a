"""Offers the ways of calling convolutions over rows and maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ssinghal.core.tensors import Board
from ssinghal.operators import named
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, L1, StepChoice, frozen
from ssinghal.plan.placing.offers import Offer, Operands

FULL_L1 = frozen({"type": "Conv2dSliceConfig", "slice_type": "L1Full"})
LAYOUTS = ("HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED")


def convolution(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Sliced through DRAM; or complete in L1, sharded by rows, by columns or both."""
    inputs = dict.fromkeys((operands[0].form.memory, L1, DRAM)) if 0 in operands else {}
    for image in inputs:
        yield StepChoice(moves=((0, image),), memory=DRAM)
        for layout in LAYOUTS:
            config = frozen({"type": "Conv2dConfig", "shard_layout": layout})
            settings = (("conv_config", config), ("slice_config", FULL_L1))
            yield StepChoice(moves=((0, image),), memory=None, settings=settings)
            yield StepChoice(moves=((0, image),), memory=None, settings=settings, after=DRAM)


OFFERS: Mapping[str, Offer] = dict.fromkeys(named("convolution conv_transpose2d"), convolution)
