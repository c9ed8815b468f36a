"""Tensors in L1 before and after they are moved together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.memory_config import BufferType
from ssinghal.core.tensors import TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import MemoryView, Session
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.compaction import compact
from ssinghal.plan.layout_ops import HeldTensor, LayoutOps
from ssinghal.plan.placement import L1
from ssinghal.plan.policy import POLICIES
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class Compacted(Task["list[MemoryView]"]):
    """Places tensors of ``rows`` of 64 tiles, frees every second one, and moves the others together.

    Returns what L1 has then, before and after. The last value shares the buffer of the first.
    """

    rows: tuple[int, ...]

    def run(self, session: Session, options: PoolOptions) -> list[MemoryView]:
        session.use_regions(0)
        spec = TensorSpec((32, 2048), memory=L1)
        store = {
            number: HeldTensor(session.empty(replace(spec, shape=(32 * rows, 2048))), AxisLayout.plain((32 * rows, 2048)))
            for number, rows in enumerate(self.rows)
        }
        store[len(store)] = replace(store[0])
        for number in range(1, len(self.rows), 2):
            del store[number]
        views = [session.memory(BufferType.L1)]
        compact(LayoutOps(session, POLICIES["l1"]), store)
        views.append(session.memory(BufferType.L1))
        store.clear()
        session.clear()
        return views

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[MemoryView]:
        raise AssertionError(verdict.message)
