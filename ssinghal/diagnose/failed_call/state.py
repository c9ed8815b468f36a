"""A failed call and everything that was resident when it began: data that goes to a device worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ssinghal.core.verdict import Verdict
from ssinghal.errors import InvalidCase
from ssinghal.profile.address_map import bank
from ssinghal.profile.failure import Failure
from ssinghal.profile.model import Buffer, Call, Device, Profile, Spec, Tensor
from ssinghal.profile.names import MEMORY_NAMES

_PLACED = ("dram", "l1", "l1_small")


class Held(NamedTuple):
    """A buffer that is resident before the call. ``spec``: of the tensor in it, where that is known."""

    memory: str
    address: int
    bank_bytes: int
    spec: Spec | None = None


@dataclass(frozen=True)
class FailedCall:
    """``arguments``: as ``tracker.arguments`` writes them. ``held``: the buffers of the operands are among them. ``moved``,
    ``spilled``: the addresses of those that are moved before the call by ``ttnn.reallocate``, and into DRAM.
    ``l1_small_bytes``: of the region that the device is opened with; ``l1_small_peak_bytes``: the most that the program has
    used of it. ``bottom``: the first address of a bank of DRAM, if any is held there."""

    name: str
    arguments: Mapping[str, Any]
    operands: tuple[Tensor, ...]
    held: tuple[Held, ...]
    device: Device
    l1_small_bytes: int
    l1_small_peak_bytes: int
    bottom: int
    verdict: Verdict
    moved: tuple[int, ...] = ()
    spilled: tuple[int, ...] = ()

    @property
    def trace_region_bytes(self) -> int:
        """``trace_region_size`` that the program opened its device with, rounded up to what each bank has of it."""
        trace = self.device.memories.get("trace")
        return trace.bank_bytes * trace.banks if trace else 0

    @property
    def operand_addresses(self) -> frozenset[tuple[str, int]]:
        return frozenset((t.spec.memory, t.address) for t in self.operands if t.spec.memory and t.address is not None)


def failed_call(profile: Profile, failure: Failure) -> FailedCall:
    """Returns what is needed to make the failing call again.

    Raises:
        InvalidCase: that is not known.
    """
    call = failure.call
    if call.arguments is None:
        raise InvalidCase("its arguments are too long to be recorded")
    if call.verdict is None:
        raise InvalidCase("it did not fail")
    device = next(device for device in reversed(profile.devices) if device.first_call <= call.number)
    occupied = [name for name, memory in device.memories.items() if memory.base_bytes != _held_before(call, name)]
    if occupied:
        where = " and ".join(MEMORY_NAMES[name] for name in occupied)
        cure = "ssinghal profile -- COMMAND records a program from its start, and tries changes"
        raise InvalidCase(f"TTNN lists no exact sizes of the buffers that were there before ({where}); {cure}")
    if any(buffer.memory not in _PLACED for buffer in call.before):
        raise InvalidCase("there is a trace on the device")
    small = device.memories["l1_small"].bank_bytes if "l1_small" in device.memories else 0
    peak = profile.peaks["l1_small"].bank_bytes if "l1_small" in profile.peaks else 0
    dram = bank(device, "dram", profile.buffers)
    held = tuple(Held(b.memory, b.address, b.bank_bytes, _spec(profile, b)) for b in call.before)
    return FailedCall(
        call.name, call.arguments, call.operands, held, device, small, peak, dram.low if dram else 0, call.verdict
    )


def _held_before(call: Call, memory: str) -> int:
    """Returns the bytes per bank of the known buffers that were on the device when the recording began, and still are."""
    return sum(buffer.bank_bytes for buffer in call.before if buffer.made_before and buffer.memory == memory)


def _spec(profile: Profile, buffer: Buffer) -> Spec | None:
    """Returns the tensor in a buffer, as the last call that used it had it."""
    call = profile.calls[buffer.last_use]
    for tensor in (*call.results, *call.operands):
        if (tensor.spec.memory, tensor.address) == (buffer.memory, buffer.address):
            return tensor.spec
    return None
