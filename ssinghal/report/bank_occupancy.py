"""The contents of one bank of each memory in a case, as segments that add up to the bank.

Segments are in the order of allocation, not by address. Bytes that do not fit come last and continue beyond the bank's end.
Only known numbers are shown: bytes that the allocator booked, those of TTNN's message, and the peaks of its graph capture.
Where these cannot be separated, one labelled segment holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ssinghal.core.boards import load_board
from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, BufferType, TextEnum, format_bytes
from ssinghal.core.verdict import Resource
from ssinghal.errors import InvalidCase
from ssinghal.runs.reader import RecordGroup

_MEMORIES = {
    Resource.L1_BUFFER: BufferType.L1,
    Resource.DRAM_BUFFER: BufferType.DRAM,
    Resource.L1_SMALL_BUFFER: BufferType.L1_SMALL,
}
_PROGRAM = (Resource.CIRCULAR_BUFFER, Resource.CLASH)
_NAMES = {BufferType.L1: "L1", BufferType.DRAM: "DRAM", BufferType.L1_SMALL: "L1_SMALL"}
_NOT_RETURNED = "the call did not return: results that it had already placed are unknown"


class SegmentKind(TextEnum):
    """The use of a segment. ``WANTED``: a request that did not fit, either the part with room or the rest beyond the end."""

    RESERVED = "reserved"
    INPUT = "input"
    OUTPUT = "output"
    OTHER = "other"
    PROGRAM = "program"
    WANTED = "wanted"
    FREE = "free"


@dataclass(frozen=True)
class Segment:
    part: SegmentKind
    label: str
    size_bytes: int


@dataclass(frozen=True)
class Bar:
    """One bank. ``segments`` add up to ``size_bytes``, and ``beyond`` to the missing bytes. ``bank_bytes``: available to
    tensors and program buffers. ``notes``: remarks that cannot be drawn."""

    memory: str
    size_bytes: int
    bank_bytes: int
    segments: tuple[Segment, ...]
    beyond: tuple[Segment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def load(self) -> float:
        """Bytes taken and requested, relative to ``bank_bytes``: above 1 if something does not fit."""
        taken = sum(s.size_bytes for s in self.segments if s.part not in (SegmentKind.RESERVED, SegmentKind.FREE))
        return (taken + sum(s.size_bytes for s in self.beyond)) / self.bank_bytes if self.bank_bytes else 0.0


def board_of(group: RecordGroup) -> Board | None:
    """Returns the board as the group's run opened it, else as its file describes it. None if there is no file of it."""
    try:
        board = load_board(group.setting.board)
    except InvalidCase:
        return None
    opened = group.device
    if not opened.knows_memory:
        return board
    return replace(board, l1=opened.l1, dram=opened.dram, l1_end_bytes=opened.l1_base_bytes + opened.l1.bank_bytes)


def bars_of(record: Record, board: Board) -> tuple[Bar, ...]:
    """Returns the bars of L1, DRAM and L1_SMALL as far as the case uses them, the memory that ran out first.

    A memory with inconsistent numbers has no bar, such as banks of another release without a run.json.
    """
    board = board.with_l1_small(record.l1_small_size or 0)
    failed = _memory_that_failed(record, board)
    kinds = [kind for kind in (BufferType.L1, BufferType.DRAM, BufferType.L1_SMALL) if _concerns(record, kind, board)]
    kinds.sort(key=lambda kind: kind is not failed)
    bars = (_bar(record, kind, board, failed is kind) for kind in kinds)
    return tuple(bar for bar in bars if all(s.size_bytes > 0 for s in (*bar.segments, *bar.beyond)))


def _memory_that_failed(record: Record, board: Board) -> BufferType | None:
    """A record does not name a fragmented memory; it is recognised by the size of its bank."""
    if not record.is_oom or record.resource is None:
        return None
    if record.resource is Resource.FRAGMENTATION:
        return BufferType.DRAM if record.bank_bytes == board.dram.bank_bytes else BufferType.L1
    return BufferType.L1 if record.resource in _PROGRAM else _MEMORIES.get(record.resource)


def _concerns(record: Record, kind: BufferType, board: Board) -> bool:
    peak = _peak(record, kind)
    if kind is BufferType.L1_SMALL:
        return peak > 0 or record.resource is Resource.L1_SMALL_BUFFER
    placed = any(_kind(t.memory) == kind.value for t in record.tensors)
    named = kind is _memory_that_failed(record, board) or placed or record.resident.get(kind.value, 0) > 0
    return named or peak > 0


def _peak(record: Record, kind: BufferType) -> int:
    """Tensors and, in L1, program buffers together; 0 where there was no capture."""
    if record.usage is None:
        return 0
    return record.usage.l1_total_bytes if kind is BufferType.L1 else record.usage.of_memory(kind)


def _bar(record: Record, kind: BufferType, board: Board, failed: bool) -> Bar:
    bank = board.region(kind).bank_bytes
    if failed and record.resource not in _PROGRAM and record.bank_bytes is not None:
        bank = record.bank_bytes
    reserved = _reserved(board, bank) if kind is BufferType.L1 else []
    if failed and record.resource in _PROGRAM:
        taken, beyond, notes = _program_failure(record, board, bank)
    elif failed and record.bytes_per_bank is not None:
        taken, beyond, notes = _buffer_failure(record, kind, bank)
    else:
        taken, beyond, notes = _held_and_peaks(record, kind, bank)
    segments = [*reserved, *taken]
    return Bar(
        _NAMES[kind],
        bank + sum(s.size_bytes for s in reserved),
        bank,
        tuple(s for s in segments if s.size_bytes),
        tuple(s for s in beyond if s.size_bytes),
        tuple(notes),
    )


_Parts = tuple[list[Segment], list[Segment], list[str]]  # in the bank, beyond its end, notes


def _reserved(board: Board, bank_bytes: int) -> list[Segment]:
    """Returns the segments below and above the bank in the L1 of a core."""
    base = max(0, board.l1_end_bytes - bank_bytes - board.l1_small_bytes)
    small = Segment(SegmentKind.RESERVED, "L1_SMALL region", board.l1_small_bytes)
    return [Segment(SegmentKind.RESERVED, "reserved by TTNN", base), small]


def _buffer_failure(record: Record, kind: BufferType, bank: int) -> _Parts:
    """Draws a tensor that does not fit: at most the largest free block can hold a part of it."""
    need = record.bytes_per_bank or 0
    inputs = _inputs(record, kind)
    held = record.allocated_bytes if record.allocated_bytes is not None else _sum(inputs)
    if held < _sum(inputs):  # the allocator reports less than was booked: operands cannot be separated
        inputs = []
    taken = [*inputs, Segment(SegmentKind.OTHER, "other buffers of the call", held - _sum(inputs))]
    block = record.largest_free_bytes if record.largest_free_bytes is not None else max(0, bank - held)
    room = min(need, block)
    stage = record.stage or "a buffer"
    free = Segment(SegmentKind.FREE, "free, in smaller blocks" if need > block else "free", bank - held - room)
    taken += [free, Segment(SegmentKind.WANTED, f"{stage}: as much as fits", room)]
    peak = _peak(record, kind)
    is_plausible = peak >= held + need  # TTNN's capture counts bytes per bank in 32 bits
    notes = [f"TTNN's capture: the complete call would take {format_bytes(peak)} of each bank"] if is_plausible else []
    return taken, [Segment(SegmentKind.WANTED, f"{stage}: does not fit", need - room)], notes


def _program_failure(record: Record, board: Board, bank: int) -> _Parts:
    """Draws program buffers that reach beyond L1 or into its tensors. The record has their end address, or the bytes of one
    buffer and its budget."""
    tensors = _tensors_of_program(record, board)
    room = max(0, bank - _sum(tensors))
    if record.program_bytes is None:
        limit = f"; its buffers may take {format_bytes(record.limit_bytes)}" if record.limit_bytes is not None else ""
        free = Segment(SegmentKind.FREE, "free, but too little for the program", room)
        return [*tensors, free], [], [f"TTNN does not report the bytes that this program needs{limit}"]
    is_address = record.ends_at_address
    need = record.program_bytes - (board.reserved_base_bytes if is_address else 0)
    budget = room if is_address or record.limit_bytes is None else min(record.limit_bytes, room)
    fitting = min(need, budget)
    buffers = f"{record.buffer_kind or 'program'} buffers"
    taken = [
        *tensors,
        Segment(SegmentKind.FREE, "free, but not for these buffers", room - fitting),
        Segment(SegmentKind.WANTED, f"{buffers}: as much as fits", fitting),
    ]
    return taken, [Segment(SegmentKind.WANTED, f"{buffers}: do not fit", need - fitting)], []


def _tensors_of_program(record: Record, board: Board) -> list[Segment]:
    """Returns the L1 tensors above the program: operands, and other buffers down to the lowest address in the message."""
    inputs = _inputs(record, BufferType.L1)
    if record.tensor_address is None:
        return inputs
    below = board.l1_end_bytes - board.l1_small_bytes - record.tensor_address - _sum(inputs)
    results = [a for a in record.allocations if a.label.startswith("output") and _kind(a.memory) == "l1"]
    if sum(a.booked_bytes_per_bank for a in results) == below:
        return [*inputs, *(Segment(SegmentKind.OUTPUT, a.label, a.booked_bytes_per_bank) for a in results)]
    return [*inputs, Segment(SegmentKind.OTHER, "other L1 buffers of the call", max(0, below))]


def _held_and_peaks(record: Record, kind: BufferType, bank: int) -> _Parts:
    """Draws operands and results, then temporary and program buffers at the peak, by TTNN's graph capture."""
    held = [*_inputs(record, kind), *_results(record, kind)]
    stopped = record.is_oom and not record.stopped_at_operand
    notes = [_NOT_RETURNED] if stopped else []
    usage = record.usage
    if usage is None:
        notes += [f"peaks of the call are unknown: {record.usage_note}"] if record.usage_note and not record.is_oom else []
        label = "free, or taken during the call" if record.resident else "free"
        return [*held, Segment(SegmentKind.FREE, label, bank - _sum(held))], [], notes
    temporary, more = _temporary(usage, kind, _sum(held), bank)
    taken = [*held, *temporary]
    return [*taken, Segment(SegmentKind.FREE, "free", bank - _sum(taken))], [], [*notes, *more]


def _temporary(usage: Usage, kind: BufferType, held: int, bank: int) -> tuple[list[Segment], list[str]]:
    """Returns the bytes that a call takes at its peak in addition to ``held``, and remarks that cannot be drawn."""
    if kind is not BufferType.L1:
        peak = usage.of_memory(kind)
        if peak > bank:
            return [], [_more_than_the_bank(peak)]
        return [Segment(SegmentKind.OTHER, "temporaries, at the peak", max(0, peak - held))], []
    tensors, together, program = usage.l1_bytes, usage.l1_total_bytes, usage.program_bytes
    if max(together, held) > bank or held + program > bank >= tensors + program:
        return [], [_more_than_the_bank(max(together, held + program))]
    if together == tensors + program:
        temporaries = Segment(SegmentKind.OTHER, "temporaries, at the peak", max(0, tensors - held))
        return [temporaries, Segment(SegmentKind.PROGRAM, "program buffers, at the peak", program)], []
    rest = max(0, together - held)
    if tensors <= held:
        return [Segment(SegmentKind.PROGRAM, "program buffers, at the peak", rest)], []
    note = f"tensors take {format_bytes(tensors)} and program buffers {format_bytes(program)} at most, at different moments"
    return [Segment(SegmentKind.PROGRAM, "temporaries and program buffers together, at the peak", rest)], [note]


def _more_than_the_bank(peak_bytes: int) -> str:
    return f"not drawn: by TTNN's capture, without tensors in place, the call takes {format_bytes(peak_bytes)} at its peak"


def _inputs(record: Record, kind: BufferType) -> list[Segment]:
    """Returns the operands that were placed, with the bytes booked by the allocator."""
    placed = (t for t in record.tensors if t.label.startswith("input") and _kind(t.memory) == kind.value)
    return [Segment(SegmentKind.INPUT, t.label, t.booked_bytes) for t in placed if t.booked_bytes]


def _results(record: Record, kind: BufferType) -> list[Segment]:
    """Returns the results that stayed allocated, tensor by tensor if their sizes by arithmetic add up to exactly that."""
    left = record.resident.get(kind.value, 0) - _sum(_inputs(record, kind))
    placed = {t.label for t in record.tensors if _kind(t.memory) == kind.value}
    known = [a for a in record.allocations if a.label.startswith("output") and a.label in placed]
    if known and sum(a.booked_bytes_per_bank for a in known) == left:
        return [Segment(SegmentKind.OUTPUT, a.label, a.booked_bytes_per_bank) for a in known]
    return [Segment(SegmentKind.OUTPUT, "results", max(0, left))]


def _sum(segments: Iterable[Segment]) -> int:
    return sum(segment.size_bytes for segment in segments)


def _kind(memory: str) -> str:
    """Returns "l1" for "l1:height@8x8:32x64"."""
    return memory.partition(":")[0]
