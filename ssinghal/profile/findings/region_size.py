"""An L1_SMALL or trace region larger than the program needs, or smaller: the exact size to open the device with.

What an L1_SMALL region must hold is what the program allocated in it, from its top down to the lowest address. That size is a
finding where all allocations of the program fit into it by the same rule (``free_blocks``) and 1/256 of L1 is left over; the
rest is missing in L1 of every core. A call that lacked room in the region has at least its buffer as well. Of the trace region,
traces are not allocated on a virtual device: it is a finding only if the program captures none.
"""

from __future__ import annotations

from ssinghal.core.record import Resource
from ssinghal.core.tensors import format_bytes, round_up
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.findings.basis import OF_BANK, Basis
from ssinghal.profile.findings.free_blocks import free_blocks
from ssinghal.profile.findings.history import History, end_call
from ssinghal.profile.model import Device


def find(basis: Basis) -> list[Finding]:
    found = []
    for index in range(len(basis.profile.devices)):
        of_device = {history.memory: history for history in basis.histories if history.device == index}
        found += _l1_small(basis, index, of_device.get("l1_small"))
        found += _trace(basis, index)
    return found


def _l1_small(basis: Basis, index: int, history: History | None) -> list[Finding]:
    device = basis.profile.devices[index]
    region = device.memories.get("l1_small")
    if region is None or region.base_bytes:
        return []
    short = _short(basis, index, history)
    if short is not None:
        return [short]
    needed = _needed(device, history)
    if needed is None or region.bank_bytes - needed < device.memories["l1"].bank_bytes // OF_BANK:
        return []
    unused = region.bank_bytes - needed
    used = f"down to the lowest address, {needed:,} B of it are used at most" if needed else "nothing is allocated in it"
    proof = f"{used}, and all allocations fit into {needed:,} B; the other {unused:,} B are missing in L1 of every core"
    up_to = " up to where the program ended" if basis.is_cut(index) else ""
    title = f"L1_SMALL region of {format_bytes(region.bank_bytes)}: l1_small_size={needed} suffices{up_to}"
    return [_finding(index, "l1_small", title, proof, region.bank_bytes, needed)]


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


def _short(basis: Basis, index: int, history: History | None) -> Finding | None:
    """Returns the finding of the last call that lacked room in the region."""
    calls = basis.profile.calls[basis.profile.devices[index].first_call : end_call(basis.profile, index)]
    for call in reversed(calls):
        verdict = call.verdict
        if verdict is None or verdict.resource is not Resource.L1_SMALL_BUFFER or verdict.bytes_per_bank is None:
            continue
        device = basis.profile.devices[index]
        size, more = device.memories["l1_small"].bank_bytes, round_up(verdict.bytes_per_bank, device.granule)
        held = sum(buffer.bank_bytes for buffer in call.resident if buffer.memory == "l1_small")
        needed = held + more
        if needed <= size:  # in no single block: more than the sum is needed
            return None
        title = f"L1_SMALL region of {format_bytes(size)}: {call.name} needs l1_small_size={needed} or more"
        proof = (
            f"{held:,} B of it are allocated, and the next buffer takes {more:,} B; what would be allocated after it is unknown"
        )
        finding = _finding(index, "l1_small", title, proof, size, needed)
        return Finding(**{**vars(finding), "site": call.site, "calls": (call.number,)})
    return None


def _trace(basis: Basis, index: int) -> list[Finding]:
    device = basis.profile.devices[index]
    region = device.memories.get("trace")
    calls = basis.profile.calls[device.first_call : end_call(basis.profile, index)]
    if region is None or region.base_bytes or region.bank_bytes < device.memories["dram"].bank_bytes // (OF_BANK * OF_BANK):
        return []
    if any("trace" in call.name for call in calls) or any(
        one.device == index and one.memory == "trace" for one in basis.histories
    ):
        return []
    total = region.bank_bytes * region.banks
    title = f"trace region of {format_bytes(region.bank_bytes)} per bank and no trace: trace_region_size=0 suffices"
    proof = f"nothing is allocated in it, and no trace is captured; its {format_bytes(total)} in all are missing in DRAM"
    return [_finding(index, "trace", title, proof, region.bank_bytes, 0)]


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
