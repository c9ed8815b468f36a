"""How one case changed between two runs: its verdict and numbers, beside banks that moved. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_values import fields_of
from ssinghal.core.record import Record
from ssinghal.core.verdict import FAULTS, Resource, Status
from ssinghal.runs.change_kinds import ChangeKind


@dataclass(frozen=True)
class ByteChange:
    """A number of bytes, or an address, that differs between the runs."""

    name: str
    before_bytes: int
    after_bytes: int

    def __str__(self) -> str:
        return f"{self.name} {self.before_bytes:,} → {self.after_bytes:,} B"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "before_bytes": self.before_bytes, "after_bytes": self.after_bytes}


# Numbers of a message that move with the reserved base of a memory: by how many bytes for each byte that a bank grows. Room is
# counted from the base. A limit is such room, or the fixed end of L1. Program buffers have a size, or the address where they
# end, which the base shifts the other way. Tensors are placed from the end of L1 down: they stay.
_MOVES: Mapping[str, tuple[int, ...]] = {
    "bank_bytes": (1,),
    "free_bytes": (1,),
    "largest_free_bytes": (1,),
    "limit_bytes": (0, 1),
    "program_bytes": (0, -1),
}
_MESSAGE = ("total_bytes", "bytes_per_bank", "allocated_bytes", "tensor_address", *_MOVES)
_MESSAGE_OF = attrgetter(*_MESSAGE)
_ROOM = {"bank_bytes", "free_bytes", "largest_free_bytes", "limit_bytes", "tensor_address"}  # the less, the worse
_MEMORIES: Mapping[Resource, tuple[str, ...]] = {
    Resource.L1_BUFFER: ("L1",),
    Resource.CIRCULAR_BUFFER: ("L1",),
    Resource.CLASH: ("L1",),
    Resource.DRAM_BUFFER: ("DRAM",),
    Resource.L1_SMALL_BUFFER: ("L1_SMALL",),
    Resource.TRACE_BUFFER: ("trace",),
    Resource.FRAGMENTATION: ("L1", "DRAM"),  # either
}
_NO_TRIAL = (Status.NOT_RUN, Status.UNSUPPORTED, Status.INVALID)
Shifts = Mapping[str, tuple[int, int]]  # bytes of a bank before and after, by memory


@dataclass(frozen=True)
class BankMove:
    """Cases that both runs have, which lack room in the same resource: how many, and the bytes of a bank in each run."""

    resource: Resource
    before_bytes: int
    after_bytes: int
    cases: int = 1


@dataclass(frozen=True)
class Judge:
    """Compares records of two runs whose banks moved by ``shifts``. ``per_bank``: also bytes per bank, as on the same board."""

    per_bank: bool
    shifts: Shifts

    def judged(self, old: Record, new: Record) -> tuple[ChangeKind | None, tuple[ByteChange, ...]]:
        """Returns how a case changed, if it did, and the numbers that moved."""
        worse, moved = self._moved(old, new)
        kind = _verdict_kind(old, new)
        if kind is ChangeKind.CHANGED:
            moved = (*_message_changes(old, new), *moved)
        elif kind is None and moved:
            kind = ChangeKind.GROWN if worse else ChangeKind.SHRUNK
        return kind, moved

    def _moved(self, old: Record, new: Record) -> tuple[bool, tuple[ByteChange, ...]]:
        """Returns the numbers that moved by more or less than their memory, and whether one of them moved for the worse."""
        numbers = list(_numbers(old, new, self.per_bank))
        by_shift = [[(number, _excess(number, shift)) for number in numbers] for shift in [0, *self._shifts_of(new)]]
        best = min(by_shift, key=lambda excesses: sum(excess != 0 for _, excess in excesses))
        moved = [(number, excess) for number, excess in best if excess]
        worse = any((excess > 0) != (number.name in _ROOM) for number, excess in moved)
        return worse, tuple(number for number, _ in moved)

    def _shifts_of(self, record: Record) -> list[int]:
        memories = _MEMORIES.get(record.resource, ()) if record.resource else ()
        return [self.shifts[m][1] - self.shifts[m][0] for m in memories if m in self.shifts]

    def only_shifted(self, memory: str, old: Record, new: Record) -> bool:
        """Whether the numbers of a case differ, each as the bank of a memory moved."""
        counts = new.resource is not None and memory in _MEMORIES.get(new.resource, ())
        return counts and not self._moved(old, new)[1] and any(True for _ in _numbers(old, new, self.per_bank))


def words(record: Record) -> str:
    """Returns the status with what ran out or the reason, and a leak if there is one."""
    status = record.status.value
    text = status if record.sentence == status else f"{status}: {record.sentence}"
    return f"{text}; left allocated on the device" if record.left_allocated else text


def _verdict_kind(old: Record, new: Record) -> ChangeKind | None:
    """Returns None for the same verdict. A case that was not run has none: it neither newly fails nor newly fits, but losing a
    verdict is a change."""
    if bool(new.left_allocated) and not old.left_allocated:
        return ChangeKind.NEW_FAULT
    if _verdict(old) == _verdict(new):
        return None
    if new.status in FAULTS:
        return ChangeKind.NEW_FAULT
    if old.status is Status.FITS and new.status in _NO_TRIAL:
        return ChangeKind.LOST_FIT
    if Status.NOT_RUN in (old.status, new.status):
        return ChangeKind.OTHER_VERDICT
    if new.is_oom:
        return ChangeKind.CHANGED if old.is_oom else ChangeKind.NEW_OOM
    return ChangeKind.NOW_FITS if new.status is Status.FITS else ChangeKind.OTHER_VERDICT


def _verdict(record: Record) -> tuple[Status, Resource | None, str]:
    return record.status, record.resource, record.stage if record.is_oom else ""


def _numbers(old: Record, new: Record, per_bank: bool) -> Iterator[ByteChange]:
    """Yields the numbers that both records have and that differ; those of messages only for the same memory and stage."""
    comparable = _verdict(old) == _verdict(new)
    after = _sizes(new, per_bank, comparable)
    for name, before_bytes in _sizes(old, per_bank, comparable).items():
        if name in after and after[name] != before_bytes:
            yield ByteChange(name, before_bytes, after[name])


def _message_changes(old: Record, new: Record) -> Iterator[ByteChange]:
    """Yields the numbers of two messages about different memories or steps, as they are."""
    for name in _MESSAGE:
        before_bytes, after_bytes = getattr(old, name), getattr(new, name)
        if before_bytes is not None and after_bytes is not None and before_bytes != after_bytes:
            yield ByteChange(name, before_bytes, after_bytes)


def _sizes(record: Record, per_bank: bool, message: bool) -> dict[str, int]:
    names = (_MESSAGE if per_bank else ("total_bytes",)) if message else ()
    sizes = {name: value for name in names if (value := getattr(record, name)) is not None}
    for tensor in record.tensors:
        sizes[f"{tensor.label}: allocated_bytes"] = tensor.allocated_bytes
        if per_bank and tensor.booked_bytes is not None:
            sizes[f"{tensor.label}: booked_bytes"] = tensor.booked_bytes
    if per_bank:
        sizes.update({f"peak {name}": value for name, value in fields_of(record.usage).items()} if record.usage else {})
        sizes.update({f"resident {name}": value for name, value in record.resident.items()})
    return sizes


def compared_values(record: Record) -> tuple[object, ...]:
    """Returns all that a comparison reads of a record that both runs have: where it is equal, nothing changed."""
    tensors = [(tensor.label, tensor.allocated_bytes, tensor.booked_bytes) for tensor in record.tensors]
    usage = tuple(fields_of(record.usage).items()) if record.usage else ()
    numbers = _MESSAGE_OF(record), tensors, usage, sorted(record.resident.items())
    return (*_verdict(record), bool(record.left_allocated), *numbers)


def _excess(number: ByteChange, shift: int) -> int:
    """Returns how far a number moved beyond what a bank that grew by ``shift`` explains."""
    moved = number.after_bytes - number.before_bytes
    return min((moved - times * shift for times in _MOVES.get(number.name, (0,))), key=abs)


def bank_moves(pairs: Iterable[tuple[Record, Record]]) -> Iterator[BankMove]:
    """Yields the banks of the cases that ran out of the same resource in both runs."""
    for old, new in pairs:
        if new.resource is None or old.resource is not new.resource or old.bank_bytes is None or new.bank_bytes is None:
            continue
        yield BankMove(new.resource, old.bank_bytes, new.bank_bytes)


def shifts_of(moved: Iterable[BankMove], one: DeviceFacts, other: DeviceFacts) -> Shifts:
    """Returns the memories whose banks moved: as most of their cases have them, else as the devices have them."""
    moves: dict[str, Counter[tuple[int, int]]] = {}
    for move in moved:
        memories = _MEMORIES.get(move.resource, ())
        if len(memories) == 1:
            moves.setdefault(memories[0], Counter())[move.before_bytes, move.after_bytes] += move.cases
    devices = one, other
    for memory, regions in {"L1": [d.l1 for d in devices], "DRAM": [d.dram for d in devices]}.items():
        banks = regions[0].bank_bytes, regions[1].bank_bytes
        if memory not in moves and all(banks):
            moves[memory] = Counter([banks])
    shifted = {}
    for memory, counted in moves.items():
        shifts: Counter[int] = Counter()
        for (old_bytes, new_bytes), cases in counted.items():
            shifts[new_bytes - old_bytes] += cases
        (shift, _), *_ = shifts.most_common(1)
        if shift:
            shifted[memory] = next(banks for banks, _ in counted.most_common() if banks[1] - banks[0] == shift)
    return shifted
