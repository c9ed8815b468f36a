"""Follows TTNN in the process that runs the tests, and adds up what each test did."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from packaging.version import Version

from ssinghal.device.releases import installed_release
from ssinghal.profile.model import Buffer, Call, Device
from ssinghal.profile.replay import Replay
from ssinghal.pytest_plugin.memory.figures import Figures, by_line, device_text, where
from ssinghal.pytest_plugin.memory.peaks import peaks_of
from ssinghal.tracker import FIRST_RELEASE
from ssinghal.tracker.inject.sitecustomize import TtnnFinder

Owner = Hashable  # who made a buffer: a fixture, or a test; "" for what is outside of all of them


def why_not() -> str:
    """Returns why the installed release of ttnn cannot be followed, empty where it can."""
    release = installed_release()
    if release is None or Version(release.version) >= Version(FIRST_RELEASE):
        return ""
    return f"ttnn {release.version} does not report which buffers are freed; {FIRST_RELEASE} and later do"


def follow(folder: Path) -> TtnnFinder:
    """Has ttnn followed once it is imported, or at once where it is imported already; its records go to ``folder``.

    ``ssinghal profile`` may have arranged this already: its folder stays.
    """
    for finder in sys.meta_path:
        if type(finder).__name__ == TtnnFinder.__name__ and not finder.only_failures:  # type: ignore[attr-defined]
            return finder  # type: ignore[return-value]  # of sitecustomize, which is another module
    own = TtnnFinder(str(folder))
    if why_not():
        return own
    sys.meta_path.insert(0, own)
    if "ttnn" in sys.modules:
        own.follow(sys.modules["ttnn"])
    return own


@dataclass(frozen=True)
class _Start:
    """What had been recorded when a test's body began. ``change``: allocations and frees; ``device``: the first one that is
    open from then on."""

    call: int
    change: int
    device: int
    span: int
    others: int
    elsewhere: int
    unknown_programs: int
    differences: int
    missed: int


def leave(finder: TtnnFinder) -> None:
    """Leaves ttnn as it was, unless ``ssinghal profile`` follows it."""
    if isinstance(finder, TtnnFinder) and finder in sys.meta_path:
        sys.meta_path.remove(finder)
        if finder.follower is not None:
            finder.follower.leave()


class Recording:
    """Reads the records of this process as they grow."""

    def __init__(self, finder: TtnnFinder) -> None:
        self._finder = finder
        self._path = Path(finder.folder, f"records-{os.getpid()}.jsonl")
        self._file: BinaryIO | None = None
        self._replay = Replay()
        self._profile = self._replay.profile
        self._owners: dict[int, Owner] = {}  # of buffers, by their identity; those that are allocated stay so
        self._lost = why_not()
        self._start = self._now()

    @contextmanager
    def made_by(self, owner: Owner) -> Iterator[None]:
        """What is allocated meanwhile is the owner's: a fixture's, for example."""
        self._read()
        first = len(self._profile.calls)
        try:
            yield
        finally:
            self._read()
            for buffer in reversed(self._profile.buffers):
                if buffer.call < first:
                    break
                self._owners.setdefault(id(buffer), owner)

    def begin(self) -> None:
        """A test's body begins."""
        self._flush()
        self._start = self._now()

    def end(self, owners: Collection[Owner], test: Owner) -> Figures:
        """Returns what the body did that has ended; whatever kept its frames should be gone. ``owners``: whose buffers count
        as the test's, besides those that it made or used."""
        self._flush()
        made = self._made()
        if made:  # a cycle, such as that of an exception and its frame, is no leak
            gc.collect()
            self._flush()
            made = self._made()
        for buffer in self._profile.buffers:
            if buffer.call >= self._start.call:
                self._owners.setdefault(id(buffer), test)
        figures = self._figures(made, owners)
        self._forget()
        return figures

    def _now(self) -> _Start:
        profile = self._profile
        follower = self._finder.follower
        missed = 0 if follower is None else follower.missed
        counts = profile.others, profile.elsewhere, profile.unknown_programs, len(profile.differences), missed
        device = len(profile.devices) - (not profile.ended)
        return _Start(len(profile.calls), self._replay.changes, device, len(profile.spans), *counts)

    def _flush(self) -> None:
        """Books what was freed until now, and reads the records up to here."""
        if self._finder.follower is not None:
            self._finder.follower.end_span()
        self._read()

    def _read(self) -> None:
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open("rb")
        for line in self._file:
            self._take(line)
        self._profile = self._replay.profile

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            self._replay.read(record)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._lost = f"the recording stopped: a record cannot be read: {error!r}"
            return
        if record["k"] == "lost":
            self._lost = f"the recording stopped: {record['why']}"
        elif record["k"] == "device":
            self._lost = ""

    def _resident(self, buffer: Buffer) -> bool:
        profile = self._profile
        return buffer.freed is None and not profile.ended and buffer.device == len(profile.devices) - 1

    def _made(self) -> list[Buffer]:
        """Returns what the body made and is still allocated. When a device is closed, everything on it is freed."""
        buffers = self._profile.buffers
        return [buffer for buffer in buffers if buffer.call >= self._start.call and self._resident(buffer)]

    def _figures(self, made: list[Buffer], owners: Collection[Owner]) -> Figures:
        profile, start = self._profile, self._start
        if self._lost:
            return Figures(unknown=self._lost)
        missed = self._now().missed - start.missed
        if missed:
            return Figures(unknown=f"{missed} calls on a device that was opened before ttnn was followed; use --tt-memory")
        calls, spans = profile.calls[start.call :], profile.spans[start.span :]
        others, elsewhere = profile.others - start.others, profile.elsewhere - start.elsewhere
        if not calls:
            return Figures(other_calls=others, elsewhere=elsewhere)
        device = profile.devices[-1]
        # TTNN's own: neither returned by a call nor given to one
        kept = [buffer for buffer in made if not buffer.tensor and not buffer.made_between]
        leaks = [buffer for buffer in made if buffer.tensor or buffer.made_between]
        own = self._own(owners)
        peaks, lines = peaks_of(own, profile.calls)
        not_tensors = {id(buffer) for buffer in kept}
        tensors, _ = peaks_of((buffer for buffer in own if id(buffer) not in not_tensors), profile.calls)
        program = max((p for call in calls for p in call.programs), key=lambda p: p.program_bytes or 0, default=None)
        if program is not None and program.program_bytes is not None:
            peaks["program"] = program.program_bytes
            owner = next(call for call in calls if program in call.programs)
            lines["program"] = [(f"{program.name} in {where(owner)}", program.program_bytes, 1)]
        fullest = [span.fullest for span in spans if span.fullest is not None]
        least = min(fullest, key=lambda pair: pair[1].headroom_bytes, default=None)
        return Figures(
            device=device_text(device.arch, device.grid),
            ttnn=device.ttnn,
            calls=len(calls),
            peaks=peaks,
            tensors=tensors,
            lines=lines,
            headroom_bytes=None if least is None else least[1].headroom_bytes,
            headroom_at="" if least is None else where(least[0]),
            share=_share(device, peaks),
            ran_out=any(call.is_out_of_memory for call in calls),
            leaks=_sums(leaks),
            leak_lines=by_line(leaks, profile.calls),
            kept=_sums(kept),
            unknown_programs=profile.unknown_programs - start.unknown_programs,
            other_calls=others,
            elsewhere=elsewhere,
            differences=len(profile.differences) - start.differences,
        )

    def _own(self, owners: Collection[Owner]) -> list[Buffer]:
        """Returns the test's buffers that were allocated while its body ran."""
        start = self._start
        return [
            buffer
            for buffer in self._profile.buffers
            if buffer.device >= start.device
            and (buffer.freed_at is None or buffer.freed_at >= start.change)
            and self._counts(buffer, owners)
        ]

    def _counts(self, buffer: Buffer, owners: Collection[Owner]) -> bool:
        """Whether a buffer is one of the test's: made or used by its body, made by a fixture of it or outside of all tests.

        What other tests and their fixtures hold is not: it would depend on the order of the tests, and on xdist's distribution.
        """
        return max(buffer.call, buffer.last_use) >= self._start.call or self._owners.get(id(buffer), "") in owners

    def _forget(self) -> None:
        """Keeps what later tests may need alone: the lines of calls, and the buffers that are allocated."""
        profile = self._profile
        for call in profile.calls[self._start.call : -1]:
            _shorten(call)
        profile.buffers[:] = [buffer for buffer in profile.buffers if self._resident(buffer)]
        profile.spans.clear()
        profile.differences.clear()
        self._owners = {id(b): self._owners[id(b)] for b in profile.buffers if id(b) in self._owners}


def _shorten(call: Call) -> None:
    call.after, call.largest_free, call.programs = {}, {}, ()
    call.resident = call.operands = call.results = ()


def _sums(buffers: Iterable[Buffer]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for buffer in buffers:
        sums[buffer.memory] += buffer.bank_bytes
    return dict(sums)


def _share(device: Device, peaks: Mapping[str, int]) -> float:
    """Returns how much of a memory the test took at its peak. Regions that the program sizes itself do not count."""
    sizes = {name: memory.bank_bytes for name, memory in device.memories.items() if name in ("l1", "dram")}
    sizes["program"] = device.l1_top - device.l1_base
    return max(peaks.get(name, 0) / size for name, size in sizes.items() if size)
