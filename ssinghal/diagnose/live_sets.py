"""What else must have been allocated for the numbers of a message, where its numbers leave no other explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssinghal.core.case import Case
from ssinghal.core.tensors import Board, BufferType, ceil_div, round_up
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.remedy.trial import LiveSet, Resident

MAX_HOLES = 16


def implied_live_sets(verdict: Verdict, case: Case, board: Board, alone: Verdict) -> Iterator[LiveSet]:
    """Yields what else may have been allocated for the numbers of the message: none where it shows only the call's own tensors.

    It is what was allocated less what the call itself had placed by then. That is known from the call ``alone``, if it fails
    for the same buffer; otherwise each tensor of the size that failed may have been the one. Equal holes are left where the
    largest free block was smaller than all free bytes.
    """
    if verdict.resource is Resource.CLASH:
        yield from filter(None, [_live_above(verdict, case, board)])
        return
    memory = memory_of(verdict)
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is None or verdict.free_bytes is None:
        return
    granule, largest = board.granule_bytes, _largest_free_bytes(verdict, board.granule_bytes)
    possible = _own_bytes(verdict, estimate(case, board), memory)
    same_buffer = (alone.total_bytes, alone.bytes_per_bank) == (verdict.total_bytes, verdict.bytes_per_bank)
    if same_buffer and alone.allocated_bytes is not None:
        known = next((own for own in possible if sum(own) == alone.allocated_bytes), (alone.allocated_bytes,))
        possible = [known, *(own for own in possible if sum(own) != alone.allocated_bytes)]
    for own in possible:
        other = verdict.allocated_bytes - sum(own)
        if other > 0:
            yield tuple(_with_holes(memory, other, verdict.free_bytes - largest, largest, granule, own))


def _largest_free_bytes(verdict: Verdict, granule: int) -> int:
    """Returns the largest free block of the message, or the largest that may have been where the message does not name it.

    Enough is free for the buffer, and still it did not fit: then the blocks, taken as equal, are the fewest that are too small.
    """
    free, need = verdict.free_bytes or 0, verdict.bytes_per_bank
    if verdict.largest_free_bytes is not None:
        return verdict.largest_free_bytes
    if need is None or free < need:
        return free
    block = round_up(ceil_div(free, free // need + 1), granule)
    return block if block < need else round_up(ceil_div(free, free // need + 2), granule)


def _live_above(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """Returns the L1 tensors that reach from the address of the message to the end of the bank, without the call's own."""
    if verdict.tensor_address is None:
        return ()
    top = board.l1_end_bytes - board.l1_small_bytes
    own = sum(a.booked_bytes_per_bank for a in estimate(case, board).allocations if a.spec.memory.buffer is BufferType.L1)
    other = top - verdict.tensor_address - own
    return (Resident(BufferType.L1, other),) if other > 0 else ()


def least_live_set(verdict: Verdict, case: Case, board: Board) -> LiveSet:
    """Returns the minimum with which the buffer just does not fit, for a message that has only the size of the banks.

    Empty where the buffer exceeds a complete bank.
    """
    memory, bank, need = memory_of(verdict), verdict.bank_bytes, verdict.bytes_per_bank
    if memory not in (BufferType.L1, BufferType.DRAM) or verdict.allocated_bytes is not None or bank is None or need is None:
        return ()
    room = bank - sum(_own_bytes(verdict, estimate(case, board), memory)[0]) - need
    return () if room < 0 else (Resident(memory, round_up(room + 1, board.granule_bytes)),)


def _own_bytes(verdict: Verdict, estimated: MemoryEstimate, memory: BufferType) -> list[tuple[int, ...]]:
    """Returns the bytes of each of the call's tensors that are placed before the one that may have failed.

    Results of its size come first, then operands of it; where there is neither, all operands are placed.
    """
    placed = [a for a in estimated.allocations if a.spec.memory.buffer is memory]
    operands = [a for a in placed if a.label.startswith("input")]
    failed = (verdict.total_bytes, verdict.bytes_per_bank)
    alike = [i for i, a in enumerate(placed) if (a.allocated_bytes, a.bytes_per_bank) == failed]
    order = [*(i for i in alike if placed[i] not in operands), *(i for i in alike if placed[i] in operands)]
    return [tuple(a.booked_bytes_per_bank for a in placed[:at]) for at in order or [len(operands)]]


def _with_holes(
    memory: BufferType, total: int, holes: int, largest: int, granule: int, own: Sequence[int]
) -> Iterator[Resident]:
    """Yields residents of ``total`` bytes, between which ``holes`` bytes are left in blocks no larger than ``largest``.

    The call's ``own`` tensors, which come after them, get blocks of their sizes, so that they leave the others as they are.
    """
    count = -(-holes // largest) if holes and largest else 0
    if not 0 < count <= MAX_HOLES or total < (count + len(own) + 1) * granule:
        yield Resident(memory, total)
        return
    each, more = divmod(holes // granule, count)
    blocks = [*own, *((each + (number < more)) * granule for number in range(count))]
    for block in blocks:
        yield Resident(memory, block, freed=True)
        yield Resident(memory, granule)
    yield Resident(memory, total - len(blocks) * granule)
