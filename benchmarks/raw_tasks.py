"""What ``raw_ttnn.py`` runs in a worker: calls by a plain loop, and probes with clocks in them."""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.core.tensors import Layout, TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.runner import probe as probing
from ssinghal.runner.tasks import PoolOptions, ProbeTask, Task


@dataclass(frozen=True)
class RawTask(Task[list[float]]):
    """Makes the calls of cases one after the other; the result has the processor time of each in seconds."""

    cases: tuple[Case, ...]

    def run(self, session: Session, options: PoolOptions) -> list[float]:
        return [_raw(case, session) for case in self.cases]

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[float]:
        raise SystemExit(f"the plain loop ended: {verdict.message}")


def _processor_seconds() -> float:
    """Returns the processor time of this process and of the compilers that it started."""
    compilers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + compilers.ru_utime + compilers.ru_stime


def _raw(case: Case, session: Session) -> float:
    region = case.placement.l1_small_bytes or 0
    call = bind(case, load_board(session.facts.board).with_l1_small(region))
    inputs, _ = call.specs()
    operands = [_arguments(spec, session) for spec in inputs]
    out = session.output_arguments(call.requested_output)
    started = _processor_seconds()
    session.use_regions(region)
    _call(call, session.ttnn, session.device, operands, out)
    session.device.clear_program_cache()
    return _processor_seconds() - started


def _arguments(spec: TensorSpec, session: Session) -> dict[str, Any]:
    ttnn = session.ttnn
    return {
        "shape": list(spec.shape),
        "dtype": getattr(ttnn, spec.dtype.value),
        "layout": ttnn.TILE_LAYOUT if spec.layout is Layout.TILE else ttnn.ROW_MAJOR_LAYOUT,
        "memory_config": session.memory_config(spec.memory),
    }


def _call(call: BoundCall, ttnn: Any, device: Any, operands: Sequence[dict[str, Any]], out: dict[str, Any]) -> None:
    tensors: list[Any] = []
    results: list[Any] = []
    try:
        for arguments in operands:
            tensors.append(ttnn.empty(device=device, **arguments))
        results += call.run(ttnn, device, tensors, out)
    except probing.TTNN_ERRORS:
        pass
    finally:
        for tensor in (*results, *tensors):
            if tensor.is_allocated():
                tensor.deallocate()


@dataclass(frozen=True)
class ClockedProbe(ProbeTask):
    """Probes a case as ``ProbeTask``; ``duration_s`` of the record has the processor time instead of the elapsed."""

    def run(self, session: Session, options: PoolOptions) -> Record:
        started = _processor_seconds()
        record = super().run(session, options)
        return replace(record, duration_s=_processor_seconds() - started)


@dataclass(frozen=True)
class ComponentsTask(Task[dict[str, float]]):
    """Probes cases with clocks in the probe; the result has the seconds of processor time of each part."""

    cases: tuple[Case, ...]

    def run(self, session: Session, options: PoolOptions) -> dict[str, float]:
        clocks = _Clocks()
        attempt = probing._Attempt
        clocks.put(attempt, "_place", "placing")
        clocks.put(attempt, "_call", "checking the result")
        clocks.put(attempt, "_invoke", "the call")
        clocks.put(attempt, "usage", "capture")
        clocks.put(Session, "clear", "clearing the program cache")
        clocks.put(Session, "use_regions", "reopening")
        clocks.put(Record, "of", "record")
        clocks.put(probing, "probe", "the rest of the probe")
        for case in self.cases:
            record = probing.probe(case, session, limits=options.limits)
            started = time.process_time()
            estimated = estimate(case, session.board).stored()
            clocks.spent["estimate"] += time.process_time() - started
            started = time.process_time()
            json.dumps(replace(record, estimate=estimated).to_json())
            clocks.spent["line of JSON"] += time.process_time() - started
        return dict(clocks.spent)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> dict[str, float]:
        raise SystemExit(f"the probes with clocks ended: {verdict.message}")


class _Clocks:
    """Clocks around functions. What a function takes is its own time, without that of functions in it that have a clock too;
    a capture has all of its time."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._running: list[str] = []

    def put(self, owner: Any, name: str, part: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if "capture" in self._running:
                return function(*args, **kwargs)
            started, before = time.process_time(), sum(self.spent.values())
            self._running.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._running.pop()
                inner = sum(self.spent.values()) - before
                self.spent[part] += time.process_time() - started - inner

        setattr(owner, name, timed)
