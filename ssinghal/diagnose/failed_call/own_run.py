"""Reads what a program's own run noted: the calls that ran out of memory, the calls of traces, and where it crashed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ssinghal.catalog.recorded.calls import RecordedCall, Refused
from ssinghal.catalog.recorded.cases import case_of
from ssinghal.catalog.recorded.profile_records import entries
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.files import bounded_lines, read_limited
from ssinghal.core.json_text import read_json
from ssinghal.core.tensors import Board
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.failed_call.placed_tensor import placed_case
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.profile.failure import Failure, Role, explain
from ssinghal.profile.model import Profile, Site
from ssinghal.profile.reading import RECORDS
from ssinghal.profile.replay import Replay
from ssinghal.tracker.crashes import PREFIX

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)


@dataclass(frozen=True)
class OwnFailure:
    """A call of the program that ran out of memory. ``name``: empty for a method of a tensor. ``has_ended``: its exception
    ended the program, or a ``test`` of it; else the program handled it. ``explained``, with ``profile``: what was resident,
    where the device is known; ``case``: the call as a case, or why there is none. ``times``: how often it failed so."""

    name: str
    stack: tuple[Site, ...]
    verdict: Verdict
    test: str = ""
    has_ended: bool = False
    explained: Failure | None = None
    profile: Profile | None = None
    case: Case | str = ""
    times: int = 1

    @property
    def site(self) -> Site | None:
        return self.stack[0] if self.stack else None


class Capture(NamedTuple):
    """A call of a trace or of an event, and the user's lines around it, the innermost first."""

    name: str
    stack: tuple[Site, ...]


@dataclass
class OwnRun:
    """``crashed``: the Python lines in which native code ended a process, the innermost first, with TTNN's own among them."""

    failures: list[OwnFailure] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    crashed: tuple[Site, ...] = ()


def read_own_run(folder: Path, board: str) -> OwnRun:
    """Reads the notes in a folder; equal failures at one line are one.

    Raises:
        HarnessError: they are damaged.
    """
    run = OwnRun()
    for file in sorted(folder.glob(RECORDS), key=lambda file: file.lstat().st_mtime_ns):
        try:
            _read(file, board, run)
        except (OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise HarnessError(f"{file}: the notes of a run are damaged ({error!r})") from error
    for file in sorted(folder.glob(f"{PREFIX}*")):
        text = read_limited(file).decode(errors="replace")
        frames = [Site(one["file"], int(one["line"]), one["function"]) for one in _FRAME.finditer(text)]
        run.crashed = run.crashed or tuple(frames)
    try:
        run.failures = _merged(run.failures)
    except TypeError as error:  # a list where a name is expected
        raise HarnessError(f"{folder}: the notes of a run are damaged ({error!r})") from error
    return run


def _read(file: Path, board: str, run: OwnRun) -> None:
    replay, named = Replay(), dict[int, Any]()
    calls, chips = _calls(file), load_board(board)
    failures: dict[int, OwnFailure] = {}
    for record in _records(file):
        kind = record["k"]
        if kind == "site":
            named[record["n"]] = Site(record["file"], record["line"], record["function"], record["text"])
        elif kind == "stack":
            named[record["n"]] = tuple(named[number] for number in record["sites"])
        elif kind == "capture":
            run.captures.append(Capture(record["name"], named[record["stack"]]))
        elif kind == "failed" and record["n"] in failures:
            failures[record["n"]] = replace(failures[record["n"]], has_ended=True)
        if kind in ("call", "raised"):
            verdict = translate_error(*record["error"])
            failure = OwnFailure(record["name"], named[record["stack"]], verdict, record["test"])
            if kind == "call":
                replay.read(record)
                failure = replace(failure, case=_case(next(calls), verdict, chips))
            if verdict.status is Status.OOM:
                failures[record["n"]] = _explained(failure, replay.profile) if kind == "call" else failure
        else:
            replay.read(record)
    run.failures += failures.values()


def _records(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the records of a file; a last line without an end was cut off when its process was killed."""
    for line in bounded_lines(file):
        if line.endswith(b"\n"):
            yield read_json(line.decode())


def _calls(file: Path) -> Iterator[RecordedCall | str]:
    """Yields each call, or why it cannot be read."""
    for entry in entries(file):
        if isinstance(entry, RecordedCall):
            yield entry
        else:
            yield entry.reason if isinstance(entry, Refused) else str(entry)


def _case(call: RecordedCall | str, verdict: Verdict, board: Board) -> Case | str:
    """Returns a call as a case, or why it is none."""
    if isinstance(call, str):
        return call
    try:
        return case_of(call, [board])
    except InvalidCase as error:
        try:
            return placed_case(call, verdict, board)
        except InvalidCase:
            return str(error)


def _explained(failure: OwnFailure, profile: Profile) -> OwnFailure:
    """Adds what was resident. Who made a buffer, and who else needs it, is not known: none is one to free."""
    explained = explain(profile, profile.calls[-1])
    if explained is None or explained.resource is Resource.HOST:
        return failure
    residents = tuple(
        replace(one, made_by="the program", role=Role.KEPT if one.role is Role.OTHER else one.role)
        for one in explained.residents
    )
    return replace(failure, explained=replace(explained, residents=residents, least=()), profile=profile)


def _merged(failures: list[OwnFailure]) -> list[OwnFailure]:
    """Returns equal failures of one line as one, in order; that it ended the program is kept."""
    merged: dict[Any, OwnFailure] = {}
    for failure in failures:
        key = failure.name, failure.site, failure.verdict
        same = merged.get(key)
        if same is None:
            merged[key] = failure
        else:
            last = failure if failure.has_ended or not same.has_ended else same
            merged[key] = replace(last, times=same.times + 1)
    return list(merged.values())
