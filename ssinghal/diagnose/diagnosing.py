"""From a reading to a diagnosis of each failure: the call, why it fails, what a replay says, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ssinghal.cases import Case
from ssinghal.diagnose.calls import case_of, left_out
from ssinghal.diagnose.candidates import Candidate, candidates
from ssinghal.diagnose.explain import Explanation, explain
from ssinghal.diagnose.gathers import Gather, gather_of
from ssinghal.diagnose.reading import Failure, Operation, Reading
from ssinghal.diagnose.replay import Replay, replay, replay_later
from ssinghal.errors import InvalidCase
from ssinghal.records import Status, Verdict
from ssinghal.remedy.bench import Bench
from ssinghal.remedy.padding import ModelChange
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solving import Unsolved, padding_changes, solve
from ssinghal.remedy.telling import Told, call_text, to_json
from ssinghal.remedy.telling import lines as remedy_lines
from ssinghal.remedy.trials import LiveSet, Tried
from ssinghal.text import sentence

MOST_LATER = 12  # operations that never ran, named or tried


@dataclass(frozen=True)
class Padded:
    """Replicate padding made of slices and concat, tried. ``changes``: what it keeps, and what constant padding would not."""

    tried: Tried
    changes: ModelChange | None

    def lines(self) -> list[str]:
        told = "fits" if self.tried.works else sentence(self.tried.verdict)
        where = f"{self.tried.device_mode} {self.tried.board}, ttnn {self.tried.ttnn}"
        out = [f"{call_text(self.tried.trial.case)} on {where}: {told}"]
        return [*out, *(f"  {line}" for line in (*self.tried.code, *(self.changes.lines() if self.changes else ())))]


@dataclass(frozen=True)
class Diagnosis:
    """Of one failure. ``case``: the call, or None and ``why_no_case``; then ``candidates``. ``replays``: one for each release
    asked; of a candidate where ``of_candidate``. ``gather``: what the operation is a step of; where that is replicate padding,
    ``padded`` is the padding as slices and concat, on each release."""

    failure: Failure
    explanation: Explanation
    never_ran: tuple[Operation, ...] = ()
    case: Case | None = None
    why_no_case: str = ""
    left_out: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    replays: tuple[Replay, ...] = ()
    of_candidate: bool = False
    remedies: Told | Unsolved | None = None
    gather: Gather | None = None
    padded: tuple[Padded, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def is_memory(self) -> bool:
        return self.failure.verdict.resource is not None


def understand(reading: Reading, call: Case | None = None) -> list[Diagnosis]:
    """Without a device: each failure explained, its call where the text has it or ``call`` says it, else candidates."""
    return [_understood(failure, reading, call) for failure in reading.failures]


def _understood(failure: Failure, reading: Reading, call: Case | None) -> Diagnosis:
    explanation = explain(failure)
    first = failure is next(iter(reading.memory_failures), None)
    known = Diagnosis(
        failure, explanation, reading.never_ran if first else (), gather=gather_of(failure.operation, reading.module)
    )
    if not known.is_memory:
        return known
    if call is not None:
        return replace(known, case=_opened_as_told(call, explanation))
    if failure.operation is None:
        found = tuple(candidates(failure.verdict, explanation.origin))
        return replace(known, why_no_case="the text names no operation with its tensors", candidates=found)
    try:
        case = case_of(failure.operation)
    except InvalidCase as error:
        return replace(known, why_no_case=str(error), candidates=tuple(candidates(failure.verdict, explanation.origin)))
    return replace(known, case=_opened_as_told(case, explanation), left_out=left_out(failure.operation))


def _opened_as_told(case: Case, explanation: Explanation) -> Case:
    """With the L1_SMALL region that the bank's size tells of."""
    told = explanation.origin.l1_small_bytes
    return case if told is None else replace(case, placement=replace(case.placement, l1_small_bytes=told))


def tried(known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None, budget: Budget | None) -> Diagnosis:
    """With replays on each of ``releases``, and remedies on the first (none without a budget)."""
    if not known.is_memory:
        return known
    case = known.case
    replays: tuple[Replay, ...]
    if case is not None:
        replays = _replays(case, known, bench, releases, live)
    else:
        case, replays = _of_candidates(known, bench, releases, live)
    known = replace(known, padded=tuple(_padded(known.gather, bench, releases)) if known.gather else ())
    known = replace(known, replays=replays, of_candidate=known.case is None and bool(replays))
    if case is None or budget is None or not replays:
        return known
    failing = next((r for r in replays if r.tried.verdict.resource is not None), None)
    if failing is None:
        return known
    if failing is not replays[0]:
        return replace(known, notes=(f"remedies are not searched: on ttnn {replays[0].tried.ttnn} it fits as it is",))
    trace = known.explanation.origin.trace_region_bytes
    return replace(known, remedies=solve(case, bench, budget, failing.live, failing.tried.verdict, trace, measured=True))


def _padded(gather: Gather, bench: Bench, releases: Sequence[str]) -> Iterator[Padded]:
    try:
        case = gather.case()
    except InvalidCase:
        return
    for release in releases:
        problem = Problem.of(case, Verdict(Status.FITS), bench.board_of(release))
        yield Padded(bench.run(bench.on(release, problem.trial())), padding_changes(case, bench, release))


def _replays(case: Case, known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None) -> tuple[Replay, ...]:
    found = []
    for release in releases:
        try:
            made = replay(case, known.failure.verdict, bench, release, live, known.explanation.origin.trace_region_bytes)
        except InvalidCase:
            continue
        if made.tried.works and known.never_ran:
            made = replace(made, later=tuple(replay_later(known.never_ran[:MOST_LATER], bench, release)))
        found.append(made)
    return tuple(found)


def _of_candidates(
    known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None
) -> tuple[Case | None, tuple[Replay, ...]]:
    """The first candidate that fails with the very figures of the message, on the first release; None where none does."""
    for candidate in known.candidates:
        if candidate.case is None:
            continue
        case = _opened_as_told(candidate.case, known.explanation)
        made = _replays(case, known, bench, releases[:1], live)
        if made and made[0].same_figures:
            return case, (*made, *_replays(case, known, bench, releases[1:], live))
    return None, ()


# Told ---------------------------------------------------------------------------------------------------------------------


def explained(known: Diagnosis) -> list[str]:
    """What needs no device, in the order in which one asks: what failed, where, why, which call it was."""
    failure = known.failure
    times = f", {failure.times} times" if failure.times > 1 else ""
    process = f" (process {failure.process})" if failure.process else ""
    out = [f"line {failure.line}{process}{times}: {_headline(known)}"]
    out += [f"  {line}" for line in _where(known)]
    out += ["why:", *(f"  {line}" for line in known.explanation.lines())]
    return [*out, *_call_lines(known)] if known.is_memory else out


def found_out(known: Diagnosis) -> list[str]:
    """What a device said: does it fail here too, and what would help."""
    out = _replay_lines(known)
    if known.padded:
        out += ["the gather is replicate padding; as slices and concat in the model's own code:"]
        out += [f"  {line}" for padded in known.padded for line in padded.lines()]
    if isinstance(known.remedies, Told):
        out += ["what would make it fit" + (", were it the candidate" if known.of_candidate else "") + ":"]
        out += [f"  {line}" if line else "" for line in remedy_lines(known.remedies)[2:]]
    elif known.remedies is not None:
        out += [f"no remedy was searched: {sentence(known.remedies.verdict)}"]
    return [*out, *known.notes]


def _headline(known: Diagnosis) -> str:
    verdict = known.failure.verdict
    return sentence(verdict) if known.is_memory else f"not a memory failure: {sentence(verdict)}"


def _where(known: Diagnosis) -> list[str]:
    failure, out = known.failure, []
    if failure.operation is not None:
        results = ", ".join(value.name for value in failure.operation.results)
        name = f"{results} {failure.operation.name}" if results else failure.operation.name
        out.append(f"operation: {name} (line {failure.operation.line}, the last of {failure.started:,} that started)")
        if failure.operation.location:
            out.append(f"location: {failure.operation.location}")
    if known.gather is not None:
        out.append(known.gather.line())
    if failure.call is not None:
        out.append(f"called from {failure.call.where or 'a line of unknown place'}: {failure.call.source}")
    if failure.test:
        out.append(f"test: {failure.test}")
    if failure.verdict.thrown_at:
        out.append(f"thrown at {failure.verdict.thrown_at}")
    if known.never_ran:
        names = [f"{op.results[0].name} {op.name}" if op.results else op.name for op in known.never_ran]
        more = f" and {len(names) - MOST_LATER} more" if len(names) > MOST_LATER else ""
        out.append(f"never ran: {', '.join(names[:MOST_LATER])}{more}")
    return out


def _call_lines(known: Diagnosis) -> list[str]:
    if known.case is not None:
        beside = f" (without {', '.join(known.left_out)}: program buffers may differ)" if known.left_out else ""
        return [f"call: {call_text(known.case)}{beside}"]
    out = [f"call: unknown; {known.why_no_case}"]
    if known.candidates:
        out += ["candidates, no finding: what asks for exactly these bytes", *(f"  {c.line()}" for c in known.candidates)]
    return out


def _replay_lines(known: Diagnosis) -> list[str]:
    out = []
    bases = known.explanation.origin.bases
    for made in known.replays:
        what = "replay of the candidate" if known.of_candidate else "replay"
        least = ", the least that must have lived" if made.live_is_least else ""
        live = f" beside {_live_text(made.live)}{least}" if made.live else ""
        out.append(
            f"{what} on {made.tried.device_mode} {made.tried.board}, ttnn {made.tried.ttnn}{live}: {made.outcome(bases)}"
        )
        out += [f"  then {later.line()}" for later in made.later]
    return out


def _live_text(live: LiveSet) -> str:
    held = {r.memory: sum(x.bytes_per_bank for x in live if x.memory is r.memory and not x.freed) for r in live}
    return " and ".join(f"{size:,} B of each {str(memory).upper()} bank" for memory, size in held.items())


def as_json(known: Diagnosis) -> dict[str, Any]:
    failure, operation = known.failure, known.failure.operation
    verdict = failure.verdict
    numbers = {k: v for k, v in vars(verdict).items() if isinstance(v, int) and not isinstance(v, bool)}
    return {
        "line": failure.line,
        "times": failure.times,
        "process": failure.process,
        "test": failure.test,
        "memory_failure": known.is_memory,
        "status": str(verdict.status),
        "resource": str(verdict.resource) if verdict.resource else None,
        "message": verdict.message,
        "numbers": numbers,
        "cores": verdict.cores,
        "operation": None if operation is None else _operation_json(operation),
        "call_line": None if failure.call is None else {"where": failure.call.where, "source": failure.call.source},
        "never_ran": [_operation_json(op) for op in known.never_ran],
        "explanation": known.explanation.to_json(),
        "case": None if known.case is None else known.case.identity(),
        "why_no_case": known.why_no_case,
        "candidates": [c.line() for c in known.candidates],
        "replays": [made.to_json() for made in known.replays],
        "of_candidate": known.of_candidate,
        "gather": None if known.gather is None else known.gather.line(),
        "padding": [
            {
                "ttnn": p.tried.ttnn,
                "fits": p.tried.works,
                "code": list(p.tried.code),
                "values": asdict(p.changes.values) if p.changes else None,
            }
            for p in known.padded
        ],
        "remedies": to_json(known.remedies) if isinstance(known.remedies, Told) else None,
        "notes": list(known.notes),
    }


def _operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "results": [value.name for value in operation.results],
        "location": operation.location,
        "line": operation.line,
    }


__all__ = ["Diagnosis", "as_json", "explained", "found_out", "tried", "understand"]
