"""From a reading to a diagnosis of each failure: the call, why it fails, what a replay says, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.case import Case, call_text
from ssinghal.core.record import Status, Verdict, sentence
from ssinghal.core.tensors import BufferType
from ssinghal.diagnose.candidates import Candidate, candidates
from ssinghal.diagnose.explanation import Explanation, explain
from ssinghal.diagnose.lowered_gather import Gather, gather_of
from ssinghal.diagnose.mlir_to_case import case_of, left_out
from ssinghal.diagnose.model import Failure, LogReading, Operation
from ssinghal.diagnose.parse.mlir_module import Places
from ssinghal.diagnose.replay import Replay, replay, replay_later
from ssinghal.diagnose.source_calls import calls_on, source_calls
from ssinghal.diagnose.ttnn_functions import PREFIX
from ssinghal.errors import InvalidCase
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.replicate_padding import ModelChange
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import Unsolved, padding_changes, solve
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import LiveSet, TrialResult

MAX_CANDIDATES = 5  # calls of the catalogs, named and replayed
MAX_SOUGHT = 10_000
MAX_LATER = 12  # operations that never ran, named or tried


@dataclass(frozen=True)
class Padded:
    """Replicate padding made of slices and concat, tried. ``changes``: what it keeps, and what constant padding would not."""

    tried: TrialResult
    changes: ModelChange | None

    def lines(self) -> list[str]:
        told = "fits" if self.tried.works else sentence(self.tried.verdict)
        where = f"{self.tried.device_mode} {self.tried.board}, ttnn {self.tried.ttnn}"
        out = [f"{call_text(self.tried.trial.case)} on {where}: {told}"]
        return [*out, *(f"  {line}" for line in (*self.tried.code, *(self.changes.lines() if self.changes else ())))]


@dataclass(frozen=True)
class Diagnosis:
    """Of one failure. ``functions`` of TTNN that the text names, the likeliest first.

    ``case``: the call (``case_given``: as the user says), or None and ``why_no_case``; then ``candidates``, what the source
    line says and the first of ``candidate_count`` calls of the catalogs. ``replays``: one for each release asked, of
    ``candidate`` where the call is not known. ``not_replayed``: why on a release there is none. ``gather``: what the operation
    is a step of; where that is replicate padding, ``padded`` is the padding as slices and concat, on each release.
    """

    failure: Failure
    explanation: Explanation
    never_ran: tuple[Operation, ...] = ()
    functions: tuple[str, ...] = ()
    case: Case | None = None
    case_given: bool = False
    why_no_case: str = ""
    left_out: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    candidate_count: int = 0
    replays: tuple[Replay, ...] = ()
    candidate: Candidate | None = None
    not_replayed: tuple[str, ...] = ()
    remedies: RemedyReport | Unsolved | None = None
    gather: Gather | None = None
    padded: tuple[Padded, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_memory(self) -> bool:
        return self.failure.verdict.resource is not None


def understand(reading: LogReading, call: Case | None = None) -> Iterator[Diagnosis]:
    """Without a device: each failure explained, its call where the text has it or ``call`` says it, else candidates, which take
    about a second to find."""
    return (_understood(failure, reading, call) for failure in reading.failures)


def _understood(failure: Failure, reading: LogReading, call: Case | None) -> Diagnosis:
    explanation = explain(failure)
    first = failure is next(iter(reading.memory_failures), None)
    known = Diagnosis(
        failure,
        explanation,
        _never_ran(failure, reading) if first else (),
        _functions(failure),
        gather=gather_of(failure.operation, reading.module),
    )
    if not known.is_memory:
        return known
    if call is not None:
        return replace(known, case=_opened_as_told(call, explanation), case_given=True)
    if failure.operation is None:
        return _with_candidates(replace(known, why_no_case="the text names no operation with its tensors"))
    try:
        case = case_of(failure.operation)
    except InvalidCase as error:
        return _with_candidates(replace(known, why_no_case=str(error)))
    return replace(known, case=_opened_as_told(case, explanation), left_out=left_out(failure.operation))


def _never_ran(first: Failure, reading: LogReading) -> tuple[Operation, ...]:
    """Without what did run, where the failure was caught or another process went on: up to the last one that failed later."""
    places = Places(reading.never_ran)
    later = [places.of(failure.operation).at for failure in reading.failures if failure.line > first.line]
    return reading.never_ran[max((at + 1 for at in later if at is not None), default=0) :]


def _functions(failure: Failure) -> tuple[str, ...]:
    """With ``ttnn.``: of the operation where there is one, else what the text tells."""
    told = (failure.operation.name,) if failure.operation else failure.functions
    return tuple(dict.fromkeys(PREFIX + name.removeprefix(PREFIX) for name in told))


def _with_candidates(known: Diagnosis) -> Diagnosis:
    """Before what the catalogs have, calls whose sizes are in the text."""
    call = known.failure.call
    told = [*(source_calls(call) if call else ()), *calls_on(known.failure.tensors, known.functions, memory_asked(known))]
    found = candidates(known.failure.verdict, known.explanation.origin, MAX_SOUGHT, functions=known.functions)
    count = sum(not one.by_arithmetic for one in found)
    return replace(known, candidates=(*map(Candidate.from_source, told), *found[:MAX_CANDIDATES]), candidate_count=count)


def _opened_as_told(case: Case, explanation: Explanation) -> Case:
    """With the L1_SMALL region that the bank's size tells of."""
    told = explanation.origin.l1_small_bytes
    return case if told is None else replace(case, placement=replace(case.placement, l1_small_bytes=told))


def tried(
    known: Diagnosis, bench: DevicePools, releases: Sequence[str], live: LiveSet | None, budget: Budget | None
) -> Diagnosis:
    """With replays on each of ``releases``, and remedies on the first (none without a budget)."""
    if not known.is_memory:
        return known
    if known.case is not None:
        replays, why_not = _replays(known.case, known, bench, releases, live)
        known = replace(known, replays=replays, not_replayed=why_not)
    else:
        known = _with_candidate(known, bench, releases, live)
    known = replace(known, padded=tuple(_padded(known.gather, bench, releases)) if known.gather else ())
    replays = known.replays
    case = known.candidate.case if known.candidate else known.case
    if case is None or budget is None or not replays:
        return known
    failing = next((r for r in replays if r.tried.verdict.resource is not None), None)
    if failing is None:
        return known
    if failing is not replays[0]:
        return replace(known, notes=(f"remedies are not searched: on ttnn {replays[0].tried.ttnn} it fits as it is",))
    trace = known.explanation.origin.trace_region_bytes
    return replace(known, remedies=solve(case, bench, budget, failing.live, failing.tried.verdict, trace, measured=True))


def _padded(gather: Gather, bench: DevicePools, releases: Sequence[str]) -> Iterator[Padded]:
    try:
        case = gather.case()
    except InvalidCase:
        return
    for release in releases:
        problem = Problem.of(case, Verdict(Status.FITS), bench.board_of(release))
        yield Padded(bench.run(bench.on(release, problem.trial())), padding_changes(case, bench, release))


def _replays(
    case: Case, known: Diagnosis, bench: DevicePools, releases: Sequence[str], live: LiveSet | None
) -> tuple[tuple[Replay, ...], tuple[str, ...]]:
    """On each release, or why it cannot be made there."""
    found, why_not = [], []
    for release in releases:
        try:
            made = replay(case, known.failure.verdict, bench, release, live, known.explanation.origin.trace_region_bytes)
        except InvalidCase as error:
            why_not.append(f"no replay on ttnn {release}: {error}")
            continue
        if made.tried.works and known.never_ran:
            made = replace(made, later=tuple(replay_later(known.never_ran[:MAX_LATER], bench, release)))
        found.append(made)
    return tuple(found), tuple(why_not)


def _with_candidate(known: Diagnosis, bench: DevicePools, releases: Sequence[str], live: LiveSet | None) -> Diagnosis:
    """The first candidate that fails with the very figures of the message, on the first release, replayed on all."""
    sought = [(one, _opened_as_told(one.case, known.explanation)) for one in known.candidates if one.case is not None]
    for candidate, case in sought:
        made, _ = _replays(case, known, bench, releases[:1], live)
        if made and made[0].same_figures:
            others, _ = _replays(case, known, bench, releases[1:], live)
            return replace(known, candidate=replace(candidate, case=case), replays=(*made, *others))
    return replace(known, notes=(f"no candidate fails with these figures on ttnn {releases[0]}",)) if sought else known


def memory_asked(known: Diagnosis) -> BufferType | None:
    """Of the buffer whose bytes the message names."""
    return known.explanation.buffer.memory if known.explanation.buffer else None
