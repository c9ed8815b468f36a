"""Offers the ways of calling a step that are worth a try, given how its operands are held. Nothing is tried here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ssinghal.core.tensors import Board
from ssinghal.operators import named
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, IN_DRAM, L1, Held, StepChoice, frozen

Operands = Mapping[int, Held]
Offer = Callable[[PlannedCall, Operands, Board], Iterable[StepChoice]]

FULL_L1 = frozen({"type": "Conv2dSliceConfig", "slice_type": "L1Full"})
LAYOUTS = ("HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED")


def offered(planned: PlannedCall, operands: Operands, board: Board) -> Sequence[StepChoice]:
    """Returns the choices for a step, each once; the one of the policy ``port``, all in DRAM, is always among them."""
    offer = OFFERS.get(planned.operator, interleaved)
    return list(dict.fromkeys([port_choice(operands), *offer(planned, operands, board)]))


def port_choice(operands: Operands) -> StepChoice:
    """Returns the choice that brings everything to DRAM."""
    moves = tuple((position, DRAM) for position, held in operands.items() if held.form.in_l1)
    return StepChoice(moves=moves) if moves else IN_DRAM


def interleaved(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Operands as they are, or interleaved in L1; results in L1 or DRAM."""
    as_they_are: tuple[tuple[int, object], ...] = ()
    in_l1 = tuple((position, L1) for position, held in operands.items() if held.form.memory != L1)
    for moves in dict.fromkeys((as_they_are, in_l1)):
        for memory in (L1, DRAM):
            yield StepChoice(moves=moves, memory=memory)  # type: ignore[arg-type]


def like_operand(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Also results in the shards of an operand, with the others moved to these."""
    yield from interleaved(planned, operands, board)
    for held in operands.values():
        memory = held.form.memory
        if memory.shard is not None:
            moves = tuple((other, memory) for other, x in operands.items() if x.form.memory != memory)
            yield StepChoice(moves=moves, memory=memory)


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


def view(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Views make no call, unless the order of the elements prevents them; then in L1 as well."""
    yield StepChoice(memory=L1)
    yield StepChoice(moves=tuple((position, L1) for position in operands), memory=L1)


OFFERS: Mapping[str, Offer] = {
    **dict.fromkeys(named("convolution conv_transpose2d"), convolution),
    **dict.fromkeys(named("relu silu sigmoid gelu hardswish add sub mul div"), like_operand),
    **dict.fromkeys(named("view flatten unflatten unsqueeze squeeze permute transpose t clone identity dropout"), view),
}
