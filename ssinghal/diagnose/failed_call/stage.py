"""Makes a failed call again on a device: every buffer that was resident is at its recorded address."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.diagnose.failed_call.arguments import ArgumentReader
from ssinghal.diagnose.failed_call.state import FailedCall, Held
from ssinghal.errors import InvalidCase
from ssinghal.profile.model import Spec
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task

_WORD_BYTES = 4  # of the elements of a buffer that stands for one of unknown content


@dataclass(frozen=True)
class CallTask(Task[Verdict]):
    """Makes the call; returns how it ends: ``invalid`` where it cannot be made as it was."""

    call: FailedCall

    def run(self, session: Session, options: PoolOptions) -> Verdict:
        session.use_regions(self.call.l1_small_bytes, self.call.trace_region_bytes)
        verdict = _outcome(self.call, session)
        gc.collect()  # tensors of an exception's frames
        session.reopen()  # no program in the cache, and nothing allocated
        return verdict

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Verdict:
        return verdict

    def exhausted_host(self, result: Verdict) -> bool:
        return result.resource is Resource.HOST


def _outcome(call: FailedCall, session: Session) -> Verdict:
    try:
        _check_device(call, session)
        Stage(call, session).play()
    except InvalidCase as error:
        return Verdict(Status.INVALID, decided_by=DecidedBy.HARNESS, message=str(error))
    except TTNN_ERRORS as error:
        return translate_error(type(error).__name__, str(error))
    return Verdict(Status.FITS)


def _check_device(call: FailedCall, session: Session) -> None:
    """Raises InvalidCase unless the banks are as large as the program had them, apart from what another L1_SMALL takes."""
    for name, memory in call.device.memories.items():
        expected = memory.bank_bytes
        if name == "l1":
            expected += call.device.memories["l1_small"].bank_bytes - call.l1_small_bytes
        if name in ("l1", "dram") and session.memory(BufferType(name)).bank_bytes != expected:
            raise InvalidCase(f"the program opened its device with other options: {name} has {expected:,} B in each bank")
    if (call.device.grid, call.device.mesh) != (session.facts.grid, session.facts.mesh):
        raise InvalidCase(f"the program opened a mesh of {call.device.mesh} chips with a grid of {call.device.grid} cores each")


class Stage:
    """Places the buffers of a failed call and makes it."""

    def __init__(self, call: FailedCall, session: Session) -> None:
        self._call, self._session, self._module = call, session, session.ttnn
        self._placed: dict[tuple[str, int], Any] = {}
        small = call.device.memories["l1_small"].bank_bytes if "l1_small" in call.device.memories else 0
        self._shift = call.l1_small_bytes - small  # L1 ends lower by as much

    def play(self) -> None:
        """Raises what TTNN raises, and InvalidCase where a buffer cannot be placed as it was."""
        for memory in ("dram", "l1", "l1_small"):
            self._place(memory, [held for held in self._call.held if held.memory == memory])
        for key in [key for key in self._placed if key[1] in self._call.spilled]:
            tensor = self._placed.pop(key)
            self._placed[key] = self._module.to_memory_config(tensor, self._module.DRAM_MEMORY_CONFIG)
            tensor.deallocate()
        for address in self._call.moved:
            key = next(key for key in self._placed if key[1] == address)
            self._placed[key] = self._module.reallocate(self._placed.pop(key))
        tensors = [self._operand(index) for index in range(len(self._call.operands))]
        reader = ArgumentReader(self._module, self._session.device, tensors)
        args, kwargs = reader.read(self._call.arguments)
        function = reduce(getattr, self._call.name.removeprefix("ttnn.").split("."), self._module)
        function(*args, **kwargs)

    def _keys(self) -> list[tuple[str, int] | None]:
        return [(t.spec.memory, t.address) if t.spec.memory and t.address is not None else None for t in self._call.operands]

    def _place(self, memory: str, held: Sequence[Held]) -> None:
        """Allocates the buffers in the order in which the allocator fills a bank, with others in the holes, which are freed."""
        fillers = []
        downwards = memory != "dram"
        edge = self._edge(memory)
        for one in sorted(held, key=lambda one: one.address, reverse=downwards):
            low = self._address(one)
            gap = edge - low - one.bank_bytes if downwards else low - edge
            if gap < 0:
                raise InvalidCase(f"two buffers of {memory} overlap at {low:,}")
            if gap:
                fillers.append(self._filler(memory, gap))
            tensor = self._made(one)
            if tensor.buffer_address() != low:
                raise InvalidCase(f"a buffer of {memory} is placed at {tensor.buffer_address():,}; it was at {low:,}")
            self._placed[one.memory, one.address] = tensor
            edge = low if downwards else low + one.bank_bytes
        for filler in fillers:
            filler.deallocate()

    def _edge(self, memory: str) -> int:
        device = self._call.device
        if memory == "dram":
            return self._call.bottom
        return device.l1_top if memory == "l1_small" else device.l1_top - self._call.l1_small_bytes

    def _address(self, held: Held) -> int:
        return held.address - self._shift if held.memory == "l1" else held.address

    def _made(self, held: Held) -> Any:
        """Returns the operand in a buffer, a tensor as it was, or else one of as many bytes."""
        for index, key in enumerate(self._keys()):
            if key == (held.memory, held.address):
                return self._as_it_was(held, self._call.operands[index].spec)
        if held.spec is not None:
            return self._as_it_was(held, held.spec)
        return self._filler(held.memory, held.bank_bytes)

    def _as_it_was(self, held: Held, spec: Spec) -> Any:
        """Returns the tensor of a buffer; raises InvalidCase if it takes other bytes, as where it was a view of another."""
        ttnn, kind = self._module, BufferType(held.memory)
        before = self._session.memory(kind).allocated_bytes
        tensor = ttnn.empty(
            list(spec.shape),
            dtype=getattr(ttnn, spec.dtype),
            layout=self._layout(spec),
            device=self._session.device,
            memory_config=self._config(spec),
        )
        booked = self._session.memory(kind).allocated_bytes - before
        if booked != held.bank_bytes:
            raise InvalidCase(f"a tensor takes {booked:,} B of each {held.memory} bank; its buffer took {held.bank_bytes:,}")
        return tensor

    def _layout(self, spec: Spec) -> Any:
        return self._module.TILE_LAYOUT if spec.layout == "tile" else self._module.ROW_MAJOR_LAYOUT

    def _config(self, spec: Spec) -> Any:
        return self._module.MemoryConfig.from_json(spec.config) if spec.config else self._interleaved(spec.memory or "dram")

    def _interleaved(self, memory: str) -> Any:
        return self._module.DRAM_MEMORY_CONFIG if memory == "dram" else self._module.L1_MEMORY_CONFIG

    def _filler(self, memory: str, bank_bytes: int) -> Any:
        """Returns a tensor of a row of ``bank_bytes`` in each bank. L1_SMALL takes sharded tensors alone."""
        ttnn = self._module
        width = bank_bytes // _WORD_BYTES
        banks = self._call.device.memories[memory].banks
        config = self._interleaved(memory)
        if memory == "l1_small":
            columns, rows = self._call.device.grid
            cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))})
            banks = columns * rows
            shard = ttnn.ShardSpec(cores, [1, width], ttnn.ShardOrientation.ROW_MAJOR)
            config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1_SMALL, shard)
        return ttnn.empty(
            [banks, width], dtype=ttnn.uint32, layout=ttnn.ROW_MAJOR_LAYOUT, device=self._session.device, memory_config=config
        )

    def _operand(self, index: int) -> Any:
        operand = self._call.operands[index]
        if operand.spec.memory is None:
            dtype = getattr(self._module, operand.spec.dtype)
            return self._module.zeros(list(operand.spec.shape), dtype=dtype, layout=self._layout(operand.spec))
        placed = self._placed.get((operand.spec.memory, operand.address)) if operand.address is not None else None
        if placed is None:
            raise InvalidCase("an operand was not in a buffer that is known")
        if tuple(placed.shape) != tuple(operand.spec.shape):
            raise InvalidCase("two operands are views of one buffer")
        return placed
