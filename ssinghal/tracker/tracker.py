"""Notes every TTNN call of a device: its line, its tensors, what it allocated and freed, and the allocator's own view after it.

TTNN's graph capture is on all the time: what is allocated or freed between two calls, such as by Python's last reference to a
tensor, is booked between them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from threading import get_ident
from typing import Any, TypeVar

from ssinghal.tracker.arguments import ArgumentWriter
from ssinghal.tracker.description import Description
from ssinghal.tracker.device import device_record, memory_kinds
from ssinghal.tracker.events import EventReader
from ssinghal.tracker.interrupts import HeldSignals
from ssinghal.tracker.programs import Identity
from ssinghal.tracker.records import RecordFile
from ssinghal.tracker.shadow import is_repeatable, nodes_without_dispatch

ERROR_LIMIT = 4000

T = TypeVar("T")


def described_device(ttnn: Any, device: Any) -> dict[str, Any]:
    """Returns the values of a ``device`` record."""
    return device_record(ttnn, ttnn._ttnn.reports, device)


@dataclass
class _Made:
    """A call that is being made."""

    name: str
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    is_skipped: bool = False
    record: dict[str, Any] | None = None  # until it is written
    gap: list[Any] | None = None
    started: int = 0
    result: Any = None
    error: BaseException | None = None


class Tracker:
    """Records the calls on one open device until it is closed."""

    def __init__(self, ttnn: Any, device: Any, file: RecordFile, *, has_shadows: bool = False) -> None:
        """``has_shadows``: whether calls are repeated without dispatch to know their program buffers."""
        self._module, self._file, self._has_shadows = ttnn, file, has_shadows
        self._graph = ttnn._ttnn.graph
        self._memories = memory_kinds(ttnn)
        self.device = device
        self.is_within = False  # a call that TTNN makes inside of another one is part of that
        self._thread = get_ident()
        self._signals = HeldSignals()
        self._calls = self._others = 0
        self._before: list[Any] = []
        self._is_lost = self._is_capturing = False

    def start(self) -> None:
        """Begins the recording."""
        with self._signals.held():
            self._safely(self._start)

    def _start(self) -> None:
        described = described_device(self._module, self.device)
        banks = {name: memory[0] for name, memory in described["memories"].items()}
        programs = getattr(self.device, "num_program_cache_entries", lambda: 1)()
        self._reader = EventReader(banks, described["granule"], described["l1_base"], knows_all_programs=programs == 0)
        self._described = Description(self._module, self._file, self._reader.elsewhere)
        for submesh in self.device.get_submeshes() if hasattr(self.device, "get_submeshes") else ():
            self.leave_out(submesh)
        self._file.write("device", **described)
        self._begin()

    def stop(self) -> None:
        """Ends the recording; the device may be closed then."""
        with self._signals.held():
            self._safely(lambda: self._file.write("end", gap=self._taken(), **self._counts()))

    def span(self, name: str) -> bool:
        """Begins a named part of the program, and ends the one before; an empty name ends that alone.

        Returns whether it did: not within a call, nor in another thread.
        """
        if self.is_within or self._is_lost or get_ident() != self._thread:
            return False
        with self._signals.held():
            self._safely(lambda: self._file.write("span", name=name, gap=self._taken(), **self._counts()))
            self._safely(self._begin)
        return True

    def lose(self, why: str) -> None:
        """Ends the recording before the program ends: what follows is not known, which the summary states."""
        self._is_lost = True
        self._is_capturing = False  # TTNN's capture goes on unread: ending it could be what failed
        try:
            self._file.write("lost", why=why)
        except OSError:
            with suppress(OSError, AttributeError):  # standard error may be closed, or on the disk that is full
                sys.stderr.write(f"ssinghal: the recording stopped: {why}\n")

    def pause(self) -> bool:
        """Leaves the graph capture to the program, which is about to begin one of its own: they do not nest.

        Returns False where nothing is left to it: within a call, or in another thread.
        """
        if not self._may_follow():
            return False
        with self._signals.held():
            self._before = self._safely(self._taken) or []
            self.is_within = True
        return True

    def resume(self, nodes: list[dict[str, Any]]) -> None:
        """Takes what the program's own capture holds for the events of one call."""
        caller = sys._getframe(2)
        with self._signals.held():
            self.is_within = False
            record = self._safely(lambda: self._started(_Made("ttnn.graph.end_graph_capture"), caller))
            if record is not None:
                self._safely(lambda: self._ended(record, self._before, self._reader.events(nodes)))

    def leave_out(self, device: Any) -> None:
        """What is allocated on another device, or on a submesh of this one, is counted alone."""
        if device is not self.device:
            with self._signals.held():
                self._safely(lambda: self._reader.elsewhere.add(device.id()))

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_skipped: bool = False,
    ) -> Any:
        """Makes a call and records it. What goes wrong in the recording ends that, and never reaches the program.

        ``is_skipped``: whether ``function`` stands in for one that a virtual device lacks.
        """
        __tracebackhide__ = True
        if not self._may_follow():
            return function(*args, **kwargs)
        caller = sys._getframe(2)
        made = _Made(name, function, args, kwargs, is_skipped)
        try:
            self.is_within = True
            self._signals.hold()
            self._before_call(made, caller)
            made.started = time.perf_counter_ns()
            self._signals.release()
            made.result = function(*args, **kwargs)
            return made.result
        except BaseException as error:
            made.error = error
            raise
        finally:
            try:
                self._after_call(made)
            finally:
                self._after_call(made)  # a signal may have come before it could be held
                self.is_within = False
                made.error = None  # or else the exception and this frame hold each other
                self._signals.release()

    def _before_call(self, made: _Made, caller: Any) -> None:
        made.record = self._safely(lambda: self._started(made, caller))
        made.gap = self._safely(self._taken)
        self._safely(self._begin)

    def _after_call(self, made: _Made) -> None:
        """Writes the record of a call, unless it is written."""
        self._signals.hold()
        record, gap = made.record, made.gap
        if record is None or gap is None:
            return
        made.record = None
        record["us"] = (time.perf_counter_ns() - made.started) // 1000
        if made.error is not None:
            record["error"] = [type(made.error).__name__, str(made.error)[:ERROR_LIMIT]]
            record["arguments"] = self._written(made)
        else:
            record["out"] = self._safely(lambda: self._described.tensors(made.result))
            record["given"] = self._safely(lambda: self._given(made))
        identity = cache(partial(self._identity, record, made.args, made.kwargs))
        events = self._safely(lambda: self._taken(identity)) or []
        if self._has_shadows and self._reader.unknown and made.error is None:
            self._safely(lambda: self._repeat(events, record["out"], made, identity))
        self._safely(lambda: self._ended(record, gap, events))

    def _written(self, made: _Made) -> Any:
        """Returns the arguments of a call as ``tracker.arguments`` writes them; None where they cannot be read."""
        try:
            return ArgumentWriter(self._module, self.device).written(made.args, made.kwargs)
        except Exception:  # noqa: BLE001 (an argument of the program's own class may raise when it is read)
            return None

    def _given(self, made: _Made) -> int | None:
        """Returns the number of the arguments that a call was given, which equal calls have in common."""
        written = self._written(made)
        return None if written is None else self._file.number("given", json.dumps(written), values=written)

    def _may_follow(self) -> bool:
        """Whether a call is one to record. TTNN captures the calls of one thread; those of others are counted alone."""
        if get_ident() != self._thread:
            self._others += 1
            return False
        return not (self.is_within or self._is_lost)

    def _safely(self, act: Callable[[], T]) -> T | None:
        """Returns what ``act`` returns; None if it fails, which ends the recording."""
        if self._is_lost:
            return None
        try:
            return act()
        except Exception as error:  # noqa: BLE001 (a fault of the recording becomes a record of it; the program goes on)
            self.lose(f"{type(error).__name__}: {str(error)[:ERROR_LIMIT]}")
            return None

    def _begin(self) -> None:
        self._graph.begin_graph_capture(self._graph.RunMode.NORMAL)
        self._is_capturing = True

    def _identity(self, record: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Returns a text that equal calls have in common: operation, specs of operands, arguments; None if some are unknown."""
        try:
            written = json.dumps(ArgumentWriter(self._module, self.device).written(args, kwargs))
        except Exception:  # noqa: BLE001 (an argument that cannot be read is not known to be equal)
            return None
        if '"unknown"' in written or written == "null":
            return None
        return f"{record['name']} {[spec for spec, _ in record['in']]} {written}"

    def _repeat(self, events: list[Any], results: list[Any], made: _Made, identity: Identity) -> None:
        """Repeats a call without dispatch, where that is safe. If it changed the memory all the same, it was the last."""
        if made.function is not None and is_repeatable(made.args[0], events, results):
            call = partial(made.function, *made.args, **made.kwargs)
            before = self._views()
            self._reader.learn(nodes_without_dispatch(self._graph, call), identity)
            self._has_shadows = self._views() == before

    def _taken(self, identity: Identity = lambda: None) -> list[Any]:
        """Ends the capture and returns its events. TTNN crashes if there is none to end, as after Ctrl-C in between."""
        if not self._is_capturing or get_ident() != self._thread:
            return []
        self._is_capturing = False
        return self._reader.events(self._graph.end_graph_capture(), identity)

    def _started(self, made: _Made, caller: Any) -> dict[str, Any]:
        """Writes that a call starts, so that a crash within it has its name."""
        record: dict[str, Any] = {"n": self._calls, "name": made.name, "stack": self._described.stack(caller)}
        self._calls += 1
        self._file.write("start", **record)
        record["in"] = self._described.tensors((made.args, made.kwargs))
        if made.is_skipped:
            record["skipped"] = True
        return record

    def _ended(self, record: dict[str, Any], gap: list[Any], events: list[Any]) -> None:
        self._reader.unknown.clear()  # they hold the operands, whose last reference would be lost while nothing is captured
        self._begin()
        self._file.write("call", **record, gap=gap, ev=events, view=self._views(), **self._counts())

    def _counts(self) -> dict[str, int]:
        return {"others": self._others, **({"elsewhere": self._reader.left_out} if self._reader.left_out else {})}

    def _views(self) -> dict[str, list[int]]:
        return {name: self._view(kind) for name, kind in self._memories.items()}

    def _view(self, kind: Any) -> list[int]:
        view = self._module.get_memory_view(self.device, kind)
        return [view.total_bytes_allocated_per_bank, view.largest_contiguous_bytes_free_per_bank]
