"""Defines what offers ways of calling a step, and the ways that each operator may have: interleaved, or as an operand is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ssinghal.core.memory_config import MemoryConfig
from ssinghal.core.tensors import Board
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, IN_DRAM, L1, Held, StepChoice

Operands = Mapping[int, Held]
Offer = Callable[[PlannedCall, Operands, Board], Iterable[StepChoice]]
Moves = tuple[tuple[int, MemoryConfig], ...]


def port_choice(operands: Operands) -> StepChoice:
    """Returns the choice that brings everything to DRAM."""
    moves = tuple((position, DRAM) for position, held in operands.items() if held.form.in_l1)
    return StepChoice(moves=moves) if moves else IN_DRAM


def moves_to(operands: Operands, memory: MemoryConfig) -> Moves:
    """Returns the moves that bring all operands to ``memory``, without those that are there."""
    return tuple((position, memory) for position, held in operands.items() if held.form.memory != memory)


def interleaved(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Operands as they are, or interleaved in L1; results in L1 or DRAM."""
    as_they_are: Moves = ()
    for moves in dict.fromkeys((as_they_are, moves_to(operands, L1))):
        for memory in (L1, DRAM):
            yield StepChoice(moves=moves, memory=memory)
