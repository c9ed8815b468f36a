"""From a reading to a diagnosis of each failure: the call, why it fails, what a replay says, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ssinghal.cases import Case
from ssinghal.diagnose.calls import case_of, left_out
from ssinghal.diagnose.candidates import Candidate, candidates
from ssinghal.diagnose.explain import Explanation, explain
from ssinghal.diagnose.functions import PREFIX, operators_calling
from ssinghal.diagnose.gathers import Gather, gather_of
from ssinghal.diagnose.modules import Places
from ssinghal.diagnose.reading import Failure, Operation, Reading
from ssinghal.diagnose.replay import Replay, replay, replay_later
from ssinghal.diagnose.source_calls import calls_on, source_calls
from ssinghal.errors import InvalidCase
from ssinghal.records import Resource, Status, Verdict
from ssinghal.remedy.bench import Bench
from ssinghal.remedy.padding import ModelChange
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solving import Unsolved, padding_changes, solve
from ssinghal.remedy.telling import Told, call_text, to_json
from ssinghal.remedy.telling import lines as remedy_lines
from ssinghal.remedy.trials import LiveSet, Tried
from ssinghal.specs import BufferType
from ssinghal.text import sentence

ASKED = ("total_bytes", "banks", "bytes_per_bank", "program_bytes")  # what a message has of the call alone
MOST_CANDIDATES = 5  # calls of the catalogs, named and replayed
MOST_SOUGHT = 10_000
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
    remedies: Told | Unsolved | None = None
    gather: Gather | None = None
    padded: tuple[Padded, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def is_memory(self) -> bool:
        return self.failure.verdict.resource is not None


def understand(reading: Reading, call: Case | None = None) -> Iterator[Diagnosis]:
    """Without a device: each failure explained, its call where the text has it or ``call`` says it, else candidates, which take
    about a second to find."""
    return (_understood(failure, reading, call) for failure in reading.failures)


def _understood(failure: Failure, reading: Reading, call: Case | None) -> Diagnosis:
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


def _never_ran(first: Failure, reading: Reading) -> tuple[Operation, ...]:
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
    told = [*(source_calls(call) if call else ()), *calls_on(known.failure.tensors, known.functions, _memory(known))]
    found = candidates(known.failure.verdict, known.explanation.origin, MOST_SOUGHT, functions=known.functions)
    count = sum(not one.by_arithmetic for one in found)
    return replace(known, candidates=(*map(Candidate.from_source, told), *found[:MOST_CANDIDATES]), candidate_count=count)


def _opened_as_told(case: Case, explanation: Explanation) -> Case:
    """With the L1_SMALL region that the bank's size tells of."""
    told = explanation.origin.l1_small_bytes
    return case if told is None else replace(case, placement=replace(case.placement, l1_small_bytes=told))


def tried(known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None, budget: Budget | None) -> Diagnosis:
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


def _padded(gather: Gather, bench: Bench, releases: Sequence[str]) -> Iterator[Padded]:
    try:
        case = gather.case()
    except InvalidCase:
        return
    for release in releases:
        problem = Problem.of(case, Verdict(Status.FITS), bench.board_of(release))
        yield Padded(bench.run(bench.on(release, problem.trial())), padding_changes(case, bench, release))


def _replays(
    case: Case, known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None
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
            made = replace(made, later=tuple(replay_later(known.never_ran[:MOST_LATER], bench, release)))
        found.append(made)
    return tuple(found), tuple(why_not)


def _with_candidate(known: Diagnosis, bench: Bench, releases: Sequence[str], live: LiveSet | None) -> Diagnosis:
    """The first candidate that fails with the very figures of the message, on the first release, replayed on all."""
    sought = [(one, _opened_as_told(one.case, known.explanation)) for one in known.candidates if one.case is not None]
    for candidate, case in sought:
        made, _ = _replays(case, known, bench, releases[:1], live)
        if made and made[0].same_figures:
            others, _ = _replays(case, known, bench, releases[1:], live)
            return replace(known, candidate=replace(candidate, case=case), replays=(*made, *others))
    return replace(known, notes=(f"no candidate fails with these figures on ttnn {releases[0]}",)) if sought else known


# Told ---------------------------------------------------------------------------------------------------------------------


def explained(known: Diagnosis) -> list[str]:
    """What needs no device, in the order in which one asks: what failed, where, why, which call it was."""
    failure = known.failure
    times = f", {failure.times} times" if failure.times > 1 else ""
    process = f" (process {failure.process})" if failure.process else ""
    headline = known.explanation.headline
    is_one = len(known.functions) == 1 or _is_in_source(known)
    within = f"{known.functions[0]}: " if known.functions and is_one and failure.operation is None else ""
    out = [f"line {failure.line}{process}{times}: {within}{headline}"]
    out += [f"  {line}" for line in _where(known)]
    why = [f"  {line}" for line in known.explanation.lines() if line != headline]
    out += ["why:", *why] if why else []
    return [*out, *_call_lines(known)] if known.is_memory else out


def found_out(known: Diagnosis) -> list[str]:
    """What a device said: does it fail here too, and what would help."""
    out = _replay_lines(known)
    if known.padded and known.gather:
        out += [f"{known.gather.padding_line()}; as slices and concat in the model's own code:"]
        out += [f"  {line}" for padded in known.padded for line in padded.lines()]
    if isinstance(known.remedies, Told):
        out += ["what would make it fit" + (", were it the candidate" if known.candidate else "") + ":"]
        out += [f"  {line}" if line else "" for line in remedy_lines(known.remedies)[2:]]
    elif known.remedies is not None:
        out += [f"no remedy was searched: {sentence(known.remedies.verdict)}"]
    return [*out, *known.notes]


def _is_in_source(known: Diagnosis) -> bool:
    """Whether the line of the program has the likeliest function."""
    call = known.failure.call
    return call is not None and bool(known.functions) and known.functions[0] in call.source


def _where(known: Diagnosis) -> list[str]:
    failure, out = known.failure, []
    if failure.operation is not None:
        results = ", ".join(value.name for value in failure.operation.results)
        name = f"{results} {failure.operation.name}" if results else failure.operation.name
        out.append(f"operation: {name} (line {failure.operation.line}, the last of {failure.started:,} that started)")
        if failure.operation.location:
            out.append(f"location: {failure.operation.location}")
    elif known.functions:
        said = "the source line" if _is_in_source(known) else "the log"
        out.append(f"function: {', or '.join(known.functions)}, as {said} says")
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
    if told := [c for c in known.candidates if c.told_by]:
        out += ["candidates, no finding: what the text has the sizes of", *(f"  {c.line()}" for c in told)]
    if sought := [c for c in known.candidates if not c.told_by]:
        more = f", {MOST_CANDIDATES} of {known.candidate_count} calls" if known.candidate_count > MOST_CANDIDATES else ""
        out += [f"candidates, no finding: what asks for exactly these bytes{more}", *(f"  {c.line()}" for c in sought)]
    if known.functions and not known.candidate_count and not told and _names_bytes(known):
        out.append(f"no call of the catalogs to {' or '.join(known.functions)} asks for these bytes")
    if known.failure.verdict.resource not in (Resource.HOST, Resource.TRACE_BUFFER):
        out.append(f"say the call itself with --call '{_call_to_say(known)}' (as for ssinghal probe)")
    return out


def _names_bytes(known: Diagnosis) -> bool:
    """Whether the message has the bytes of a buffer, by which calls are sought."""
    return _memory(known) in (BufferType.L1, BufferType.DRAM)


def _memory(known: Diagnosis) -> BufferType | None:
    """Of the buffer whose bytes the message names."""
    return known.explanation.buffer.memory if known.explanation.buffer else None


def _call_to_say(known: Diagnosis) -> str:
    operators = sorted(operators_calling(known.functions[0])) if known.functions else []
    return f"{operators[0] if len(operators) == 1 else 'OPERATOR'} SHAPE … --memory dram|l1"


def _replay_lines(known: Diagnosis) -> list[str]:
    out = []
    bases = known.explanation.origin.bases
    for made in known.replays:
        what = "replay of the candidate" if known.candidate else "replay"
        least = ", the least that must have lived" if made.live_is_least else ""
        live = f" beside {_live_text(made.live)}{least}" if made.live else ""
        out.append(
            f"{what} on {made.tried.device_mode} {made.tried.board}, ttnn {made.tried.ttnn}{live}: {made.outcome(bases)}"
        )
        out += [f"  then {later.line()}" for later in made.later]
    if known.candidate is not None and known.candidate.case is not None:
        out.append(f"  the candidate: {call_text(known.candidate.case)}; {_no_proof(known.candidate, known.candidate_count)}")
    if known.case_given and known.replays and not any(_explains(made, bases) for made in known.replays):
        out.append(f"the call given does not explain the figures: {_unexplained(known.replays[0])}")
    return [*out, *known.not_replayed]


def _no_proof(candidate: Candidate, count: int) -> str:
    if candidate.told_by:
        return f"its sizes are those of {candidate.told_by}, the rest is assumed"
    among = f"one of {count} calls of the catalogs that ask" if count > 1 else "the only call of the catalogs that asks"
    return f"no proof, for it was chosen for these bytes, {among} for them"


def _explains(made: Replay, bases: Sequence[int]) -> bool:
    """Whether the call asks for what the message says, but for the bytes that another release reserves at the bottom of L1."""
    here = made.tried.reserved_base_bytes
    shifts = {0, *(here - base for base in bases if here is not None and made.reported.ends_at_address)}
    asked = [figure for figure in made.figures if figure.name in ASKED]
    return made.same_kind and all(
        figure.equal
        or (
            isinstance(figure.reported, int)
            and isinstance(figure.replayed, int)
            and figure.replayed - figure.reported in shifts
        )
        for figure in asked
    )


def _unexplained(made: Replay) -> str:
    if made.tried.works:
        return "it fits"
    return "it asks for other bytes" if made.same_kind else "it ends otherwise"


def _live_text(live: LiveSet) -> str:
    held = {r.memory: sum(x.bytes_per_bank for x in live if x.memory is r.memory and not x.freed) for r in live}
    return " and ".join(f"{size:,} B of each {str(memory).upper()} bank" for memory, size in held.items())


def as_json(known: Diagnosis) -> dict[str, Any]:
    failure, operation = known.failure, known.failure.operation
    verdict = failure.verdict
    is_cut = failure.is_cut
    numbers = {k: v for k, v in vars(verdict).items() if isinstance(v, int) and not isinstance(v, bool)}
    return {
        "line": failure.line,
        "times": failure.times,
        "process": failure.process,
        "test": failure.test,
        "memory_failure": None if is_cut and not known.is_memory else known.is_memory,
        "cut": is_cut,
        "headline": known.explanation.headline,
        "functions": list(known.functions),
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
        "case_given": known.case_given,
        "candidates": [_candidate_json(candidate) for candidate in known.candidates],
        "candidate_count": known.candidate_count,
        "replays": [made.to_json() for made in known.replays],
        "of_candidate": known.candidate is not None,
        "not_replayed": list(known.not_replayed),
        "gather": None if known.gather is None else known.gather.line(),
        "indices_known": None if known.gather is None else known.gather.indices_known,
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


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "text": candidate.line(),
        "case": None if candidate.case is None else candidate.case.identity(),
        "told_by": candidate.told_by,
        "calls": candidate.calls,
    }


def _operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "results": [value.name for value in operation.results],
        "location": operation.location,
        "line": operation.line,
    }


__all__ = ["Diagnosis", "as_json", "explained", "found_out", "tried", "understand"]
