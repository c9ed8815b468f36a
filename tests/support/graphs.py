"""TTNN's graphs of one call in a worker: with its peaks as TTNN has them from the complete graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.operators.binding import bind
from ssinghal.runner.tasks import PoolOptions, Task

PEAKS = ("peak_cb", "peak_l1", "peak_dataflow_buffer", "peak_scratchpad", "peak_total")


@dataclass(frozen=True)
class Graphs:
    """The peaks of a call by the session and from TTNN's complete graph, and the kinds of the nodes of both runs of it."""

    peaks: tuple[int, ...]
    of_complete_graph: tuple[int, ...]
    blocked: tuple[str, ...]
    dispatched: tuple[str, ...]


@dataclass(frozen=True)
class GraphsTask(Task[Graphs]):
    case: Case

    def run(self, session: Session, options: PoolOptions) -> Graphs:
        session.use_regions(self.case.placement.l1_small_bytes or 0)
        dispatched: list[dict[str, Any]] = []
        with suppress(RuntimeError):  # the device may be too small for the call, but not for its graph
            dispatched += session.capture_running(self._call(session))
        trace, peaks = session.capture(self._call(session))
        complete = session.graph.extract_resource_usage_per_core(trace)
        session.clear()
        return Graphs(
            tuple(getattr(peaks, name) for name in PEAKS),
            tuple(getattr(complete, name) for name in PEAKS),
            tuple(node["node_type"] for node in trace),
            tuple(node["node_type"] for node in dispatched),
        )

    def _call(self, session: Session) -> Callable[[], None]:
        call = bind(self.case, session.board)
        inputs, _ = call.specs()

        def make() -> None:
            tensors: list[Any] = []
            try:
                tensors += [session.empty(spec) for spec in inputs]
                out = session.output_arguments(call.requested_output)
                tensors += call.run(session.ttnn, session.device, tensors, out)
            finally:
                for tensor in tensors:
                    if tensor.is_allocated():
                        tensor.deallocate()

        return make

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Graphs:
        raise AssertionError(verdict.message)
