"""An L1_SMALL or trace region larger than the program needs, or smaller: the exact size to open the device with.

What an L1_SMALL region must hold is what the program allocated in it, from its top down to the lowest address. That size is a
finding where all allocations of the program fit into it by the same rule (``free_blocks``) and 1/256 of L1 is left over; the
rest is taken from L1 of every core. Of a call that lacked room in the region the size is that of the change that was tried
and fits, else what its next buffer needs, and it may need more. Of the trace region,
traces are not allocated on a virtual device: it is a finding only if the program captures none.
"""

from __future__ import annotations

from dataclasses import replace

from ssinghal.core.tensors import format_bytes, round_up
from ssinghal.core.verdict import Resource
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import OF_BANK, Basis
from ssinghal.profile.findings.free_blocks import free_blocks
from ssinghal.profile.findings.history import History, end_call
from ssinghal.profile.model import Call, Device, Profile

_SIZE_OPTION = "l1_small_size="  # of ``ttnn.open_device``: the code of a tried change is this and a size


def find(basis: Basis) -> list[Finding]:
    """Devices that were opened with a region of one size, as by a fixture of a test-suite, are one finding."""
    found: list[Finding] = []
    devices = [index for index in range(len(basis.profile.devices)) if _calls(basis, index)]
    small: dict[int, list[tuple[int, int]]] = {}  # by size of the region: what each device needs, and its index
    traces: dict[int, list[int]] = {}
    histories = {(one.device, one.memory): one for one in basis.histories}
    for index in devices:
        device = basis.profile.devices[index]
        region, trace = device.memories.get("l1_small"), device.memories.get("trace")
        if region is not None and not region.base_bytes:
            short, history = _short(basis, index), histories.get((index, "l1_small"))
            needed = _needed(device, history)
            if short is not None:
                found.append(short)
            else:
                small.setdefault(region.bank_bytes, []).append((region.bank_bytes if needed is None else needed, index))
        if trace is not None and trace.bank_bytes:
            traces.setdefault(trace.bank_bytes, []).append(index)
    found += [one for size, needs in small.items() if (one := _l1_small(basis, size, needs))]
    return found + [one for size, opened in traces.items() if (one := _trace(basis, size, opened))]


def _calls(basis: Basis, index: int) -> list[Call]:
    return basis.profile.calls[basis.profile.devices[index].first_call : end_call(basis.profile, index)]


def _l1_small(basis: Basis, size: int, needs: list[tuple[int, int]]) -> Finding | None:
    needed, index = max(needs)
    unused = size - needed
    if unused < basis.profile.devices[index].memories["l1"].bank_bytes // OF_BANK:
        return None
    used = f"down to the lowest address, {needed:,} B of it are used at most" if needed else "nothing is allocated in it"
    many = f" on the {len(needs):,} devices opened with it" if len(needs) > 1 else ""
    proof = f"{used}{many}, and all allocations fit into {needed:,} B; the other {unused:,} B are taken from L1 of every core"
    up_to = " up to where the recording ended" if any(basis.is_cut(one) for _, one in needs) else ""
    title = f"L1_SMALL region of {format_bytes(size)}: l1_small_size={needed} suffices{up_to}"
    return _finding(index, "l1_small", title, proof, size, needed)


def _needed(device: Device, history: History | None) -> int | None:
    """Returns the smallest region into which the allocations of a program fit; None if that cannot be computed."""
    if history is None:
        return 0
    needed = device.l1_top - min(buffer.address for buffer in history.buffers())
    smaller = device._replace(memories={**device.memories, "l1_small": history.facts._replace(bank_bytes=needed)})
    regions = [free_blocks(one, "l1_small", ()) for one in (device, smaller)]
    for change in history.changes:
        for region in regions:
            if region is None:
                return None
            if not change.is_made:
                region.release(change.buffer.address)
            elif region.allocate(change.buffer.bank_bytes) != change.buffer.address:
                return None
    return needed


def _short(basis: Basis, index: int) -> Finding | None:
    """Returns the finding of the last call that lacked room in the region."""
    for call in reversed(_calls(basis, index)):
        verdict = call.verdict
        if verdict is None or verdict.resource is not Resource.L1_SMALL_BUFFER or verdict.bytes_per_bank is None:
            continue
        device = basis.profile.devices[index]
        size, more = device.memories["l1_small"].bank_bytes, round_up(verdict.bytes_per_bank, device.granule)
        held = sum(buffer.bank_bytes for buffer in call.resident if buffer.memory == "l1_small")
        needed = held + more
        fits = _fitting(basis.profile, call)
        if needed <= size and fits is None:  # in no single block: more than the sum is needed
            return None
        region, allocated = f"L1_SMALL region of {format_bytes(size)}", f"{held:,} B of it are allocated"
        if fits is not None:
            needed, title = fits, f"{region}: {call.name} fits with l1_small_size={fits}"
            proof = f"{allocated}; the call was run among the same buffers with a region of {fits:,} B"
        else:
            title = (
                f"{region}: at least l1_small_size={needed} for the next buffer of {call.name} alone; the call may need more"
            )
            proof = f"{allocated}, and the next buffer takes {more:,} B; what would follow is unknown"
        return replace(_finding(index, "l1_small", title, proof, size, needed), site=call.site, calls=(call.number,))
    return None


def _fitting(profile: Profile, call: Call) -> int | None:
    """Returns the size of the region with which a call was run and fits; None if that is not known."""
    if call is not profile.failure or profile.tried is None:
        return None
    sizes = [one.code.removeprefix(_SIZE_OPTION) for one in profile.tried.found if one.code.startswith(_SIZE_OPTION)]
    return int(sizes[0]) if sizes else None


def _trace(basis: Basis, size: int, opened: list[int]) -> Finding | None:
    first = basis.profile.devices[opened[0]]
    total = size * first.memories["trace"].banks
    if size < first.memories["dram"].bank_bytes // (OF_BANK * OF_BANK):
        return None
    if any("trace" in call.name for index in opened for call in _calls(basis, index)):
        return None
    if any(one.memory == "trace" and one.device in opened for one in basis.histories):
        return None
    many = f" on any of the {len(opened):,} devices opened with it" if len(opened) > 1 else ""
    title = f"trace region of {format_bytes(size)} per bank and no trace: trace_region_size=0 suffices"
    proof = f"nothing is allocated in it, and no trace captured{many}; its {format_bytes(total)} in all are taken from DRAM"
    return _finding(opened[0], "trace", title, proof, size, 0)


def _finding(index: int, memory: str, title: str, proof: str, size: int, needed: int) -> Finding:
    return Finding(
        FindingKind.REGION_SIZE,
        memory,
        max(0, size - needed),
        None,
        title,
        proof,
        device=index,
        before_bytes=size,
        after_bytes=needed,
    )
