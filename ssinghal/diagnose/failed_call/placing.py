"""Changes around a failed call: tensors freed or moved before it, its result elsewhere, another region of the device."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import replace

from ssinghal.core.tensors import round_up
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.failed_call.changes import Change, Lever, named, objects, with_argument, with_object
from ssinghal.diagnose.failed_call.state import FailedCall
from ssinghal.profile.failure import Failure, Resident, Role

_MOST_RUNS = 16  # of neighbours that are freed in a trial
_MOST_STEPS = 12  # of an L1_SMALL region that grows by what the next buffer lacks
_L1 = 1  # TTNN's number of that buffer type
_BEFORE = "before {line}"


def freed(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    """Frees the least that arithmetic found; else runs of neighbours, the fewest bytes first."""
    runs = [failure.least] if failure.least else _runs(failure.residents)
    for run in runs[:_MOST_RUNS]:
        addresses = {(resident.buffer.memory, resident.buffer.address) for resident in run}
        held = tuple(one for one in call.held if (one.memory, one.address) not in addresses)
        caution = "if nothing uses them afterwards" if len(run) > 1 else "if nothing uses it afterwards"
        yield Change(f"ttnn.deallocate of {_made(run)}", _BEFORE, replace(call, held=held), caution)


def _runs(residents: Sequence[Resident]) -> list[Sequence[Resident]]:
    runs = [
        residents[start:end]
        for start in range(len(residents))
        for end in range(start + 1, len(residents) + 1)
        if all(resident.role is Role.OTHER for resident in residents[start:end])
    ]
    return sorted(runs, key=lambda run: sum(resident.buffer.bank_bytes for resident in run))


def _made(run: Sequence[Resident]) -> str:
    return " and ".join(dict.fromkeys(f"{r.buffer.tensor or 'the result'} of {r.origin}" for r in run))


def moved(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    """Moves one tensor to where the allocator places it now, then all of them in order. Those of unknown content stay."""
    if failure.resource not in (Resource.FRAGMENTATION, Resource.CLASH):
        return
    known = {one.address for one in call.held if one.spec is not None} | {address for _, address in call.operand_addresses}
    movable = [r for r in failure.residents if r.buffer.address in known and r.role is not Role.OWN]
    if failure.memory == "l1":
        movable.reverse()
    groups = [[resident] for resident in movable] + ([movable] if len(movable) > 1 else [])
    for group in groups:
        addresses = tuple(resident.buffer.address for resident in group)
        code = f"ttnn.reallocate of {_made(group)}"
        yield Change(code, _BEFORE, replace(call, moved=addresses), "the new tensor takes the place of the old one")


def spilled(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    """Moves a tensor to DRAM that the call does not use, the one that has not been used for longest first."""
    if failure.memory != "l1":
        return
    known = {one.address for one in call.held if one.memory == "l1" and one.spec is not None}
    unused = [r for r in failure.residents if r.role in (Role.OTHER, Role.USED_LATER) and r.buffer.address in known]
    unused.sort(key=lambda resident: resident.buffer.last_use)
    for group in [[resident] for resident in unused[:_MOST_RUNS]] + ([unused] if len(unused) > 1 else []):
        addresses = tuple(resident.buffer.address for resident in group)
        code = f"ttnn.to_memory_config into DRAM of {_made(group)}"
        yield Change(code, _BEFORE, replace(call, spilled=addresses), "and back into L1 where it is used next")


def result_in_dram(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    if failure.memory != "l1":
        return
    configs = [key for key, value in objects(call, "MemoryConfig") if json.loads(value["json"])["buffer_type"] == _L1]
    changed = call
    for key in configs:
        changed = with_object(changed, key, named("DRAM_MEMORY_CONFIG"))
    if not configs:
        changed = with_argument(call, "memory_config", named("DRAM_MEMORY_CONFIG"))
    yield Change("memory_config=ttnn.DRAM_MEMORY_CONFIG", "in the call, {line}", changed, "the result is in DRAM")


def narrower_result(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    if failure.memory not in ("l1", "dram"):
        return
    changed = with_argument(call, "dtype", named("bfloat8_b"))
    yield Change("dtype=ttnn.bfloat8_b", "in the call, {line}", changed, "values are rounded")


def other_l1_small(call: FailedCall, failure: Failure) -> Generator[Change, Verdict, None]:
    """An L1_SMALL region that is too small grows by what each buffer lacks; for L1, one that has no byte unused."""
    size, where = call.l1_small_bytes, "where the device is opened"
    if failure.memory == "l1_small":
        step = _lacking(call.verdict)
        caution = ""
    elif failure.memory == "l1" and size:
        step = call.l1_small_peak_bytes - size
        caution = "at most: less may do where TTNN has tables from calls before; if no call after this one needs more of it"
    else:
        return
    for _ in range(_MOST_STEPS):
        size += round_up(step, call.device.granule)
        if step == 0 or (failure.memory == "l1" and size >= call.l1_small_bytes):
            return
        verdict = yield Change(f"l1_small_size={size}", where, replace(call, l1_small_bytes=size), caution)
        if verdict.status is Status.FITS or verdict.resource is not Resource.L1_SMALL_BUFFER:
            return
        step = _lacking(verdict)


def _lacking(verdict: Verdict) -> int:
    if verdict.bytes_per_bank is None:
        return 0
    return verdict.bytes_per_bank - (verdict.largest_free_bytes or 0)


AROUND: tuple[Lever, ...] = (spilled, moved, other_l1_small, result_in_dram, narrower_result)
