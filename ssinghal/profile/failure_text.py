"""Prints the explanation of a call that ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import sentence
from ssinghal.errors import LINE_LIMIT, cut
from ssinghal.profile.failure import Failure, Resident, Role

_SHOWN = 8
_NAMES = {"dram": "DRAM per bank", "l1": "L1 per core", "l1_small": "L1_SMALL per core", "trace": "the trace region per bank"}


def failure_lines(failure: Failure) -> list[str]:
    """Returns the lines: the call, where it was called from, what is missing, what was resident, and the least to free."""
    call = failure.call
    where = f"{call.name}, {call.site}" if call.site else call.name
    lines = [f"{where} raised: {cut(sentence(call.verdict), LINE_LIMIT) if call.verdict else ''}"]
    lines += [f"  called from {site}" for site in call.stack[1:4]]
    if failure.went_on:
        lines.append(f"  the program went on for {_count(failure.went_on, 'call')}")
    lines += [f"  {line}" for line in _missing(failure)]
    held = sum(resident.buffer.bank_bytes for resident in failure.residents)
    memory = _NAMES[failure.memory or "l1"]
    lines.append(f"  resident then, {memory}: {format_bytes(held)} in {_count(len(failure.residents), 'buffer')}")
    lines += [f"    {line}" for line in resident_lines(failure.residents)]
    return [*lines, *(f"  {line}" for line in _least(failure))]


def _missing(failure: Failure) -> list[str]:
    if failure.missing_bytes is None:
        return []
    short = f"short of {format_bytes(failure.missing_bytes)}"
    if failure.program_end is not None and failure.lowest_tensor is not None:
        return [f"{short} in each core, between the end of its program buffers and the lowest tensor"]
    if failure.largest_free_bytes is not None and failure.free_bytes is not None:
        blocks = f"largest free block {format_bytes(failure.largest_free_bytes)} of {format_bytes(failure.free_bytes)} free"
        return [f"{short} in each bank: {blocks}"]
    return [short]


def resident_lines(residents: Iterable[Resident]) -> list[str]:
    """Returns a line for each line of the program and kind of tensor, the most bytes first."""
    groups: dict[tuple[object, ...], list[Resident]] = {}
    for resident in residents:
        groups.setdefault((resident.origin, resident.role, resident.buffer.tensor), []).append(resident)
    ordered = sorted(groups.values(), key=_size, reverse=True)
    lines = [_line(group) for group in ordered[:_SHOWN]]
    rest = ordered[_SHOWN:]
    if rest:
        lines.append(f"{format_bytes(sum(map(_size, rest))):>28}  of {_count(len(rest), 'more line')}")
    return lines


def _size(group: Sequence[Resident]) -> int:
    return sum(resident.buffer.bank_bytes for resident in group)


def _line(group: Sequence[Resident]) -> str:
    first = group[0]
    tensor = f": {first.buffer.tensor}" if first.buffer.tensor else ""
    if first.role is Role.OWN:
        state = first.role.value
    else:
        state = first.role.value + _made(group)
        if first.role not in (Role.OPERAND, Role.USED_LATER):
            state += _used(group)
    return f"{format_bytes(_size(group)):>28}  {len(group):>4} x  {first.origin}{tensor} ({state})"


def _made(group: Sequence[Resident]) -> str:
    ages = sorted({resident.age for resident in group if resident.age is not None})
    if not ages or ages == [0]:  # before the recording, or since the last call, as its origin says
        return ""
    return f", made {_count(ages[-1], 'call') if len(ages) == 1 else f'{ages[0]:,} to {ages[-1]:,} calls'} before"


def _used(group: Sequence[Resident]) -> str:
    unused = [resident.unused for resident in group if resident.unused is not None]
    if not unused:
        return ", not used since"
    return f", last used {_count(min(unused), 'call')} before"


def _least(failure: Failure) -> list[str]:
    if not failure.least:
        return [failure.why_none] if failure.why_none else []
    total = f"{format_bytes(failure.least_bytes)} in {_count(len(failure.least), 'buffer')}"
    return [f"the least to free before it, if nothing uses it afterwards: {total}", *_indented(resident_lines(failure.least))]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
