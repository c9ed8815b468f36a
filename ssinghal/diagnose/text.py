"""Formats a diagnosis as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ssinghal.core.case import call_text
from ssinghal.core.verdict import sentence
from ssinghal.diagnose.candidate import Candidate
from ssinghal.diagnose.model import Failure, FailureKind, Operation
from ssinghal.diagnose.pipeline import MAX_LATER, Diagnosis
from ssinghal.diagnose.replay import LiveSource, Replay
from ssinghal.diagnose.ttnn_functions import PREFIX
from ssinghal.diagnose.unknown_call import unknown_call_lines
from ssinghal.operators.case_words import probe_command
from ssinghal.remedy.text import RemedyReport, to_json
from ssinghal.remedy.text import lines as remedy_lines

_UNKNOWN = (FailureKind.CUT, FailureKind.ECHO, FailureKind.SUSPECT)  # kinds that do not show whether a memory ran out
MAX_PROCESSES = 8  # that are named
_LIVE_SOURCES = {
    LiveSource.NONE: "",
    LiveSource.GIVEN: "",
    LiveSource.IMPLIED: ", implied by the message",
    LiveSource.ASSUMED: ", assumed: what the call itself had allocated by then is not known",
    LiveSource.LEAST: ", the minimum for this failure",
}


def explanation_lines(diagnosis: Diagnosis) -> list[str]:
    """Formats what needs no device: what failed, where, why, and which call it was."""
    failure = diagnosis.failure
    times = f", {failure.times} times" if failure.times > 1 else ""
    process = _processes(failure)
    headline = diagnosis.explanation.headline
    is_one = len(diagnosis.functions) == 1 or _is_in_source(diagnosis)
    within = f"{diagnosis.functions[0]}: " if diagnosis.functions and is_one and failure.operation is None else ""
    out = [f"line {failure.line}{process}{times}: {within}{headline}"]
    out += [f"  {line}" for line in _where(diagnosis)]
    why = [f"  {line}" for line in diagnosis.explanation.lines() if line != headline]
    out += ["why:", *why] if why else []
    return [*out, *_call_lines(diagnosis)] if diagnosis.is_memory else out


def _processes(failure: Failure) -> str:
    """Returns the processes that failed alike, in parentheses."""
    names = failure.processes or ((failure.process,) if failure.process else ())
    if len(names) < 2:
        return f" (process {names[0]})" if names else ""
    more = f" and {len(names) - MAX_PROCESSES} more" if len(names) > MAX_PROCESSES else ""
    return f" (processes {', '.join(names[:MAX_PROCESSES])}{more})"


def replay_lines(diagnosis: Diagnosis) -> list[str]:
    """Formats what a device showed: whether the call fails here too, and what would help."""
    out = _replays(diagnosis)
    if diagnosis.padded and diagnosis.gather:
        out += [f"{diagnosis.gather.padding_line()}; as slices and concat in the model's own code:"]
        out += [f"  {line}" for padded in diagnosis.padded for line in padded.lines()]
    if isinstance(diagnosis.remedies, RemedyReport):
        out += [f"what would make it fit{_doubt(diagnosis)}:"]
        out += [f"  {line}" if line else "" for line in remedy_lines(diagnosis.remedies)[2:]]
    elif diagnosis.remedies is not None:
        out += [f"no search for remedies: {sentence(diagnosis.remedies.verdict)}"]
    return [*out, *diagnosis.notes]


def _doubt(diagnosis: Diagnosis) -> str:
    """Returns what the remedies depend on."""
    if diagnosis.candidate:
        return ", if it is the candidate"
    if not diagnosis.is_explained:
        return " as it fails here, not with the numbers of the message"
    tried = next(replay for replay in diagnosis.replays if replay.result.verdict.resource is not None)
    if tried.live_from is LiveSource.LEAST:
        return ", if no more was allocated than this minimum"
    return ", if the free blocks were placed like that" if any(resident.freed for resident in tried.live) else ""


def _is_in_source(diagnosis: Diagnosis) -> bool:
    """Returns whether the line of the program calls the likeliest function."""
    call = diagnosis.failure.call
    return call is not None and bool(diagnosis.functions) and diagnosis.functions[0] in call.source


def _where(diagnosis: Diagnosis) -> list[str]:
    failure, out = diagnosis.failure, []
    if failure.operation is not None:
        results = ", ".join(value.name for value in failure.operation.results)
        name = f"{results} {failure.operation.name}" if results else failure.operation.name
        which = f"the last of {failure.started:,} that started" if failure.started else "the only one before the message"
        out.append(f"operation: {name} (line {failure.operation.line}, {which})")
        if failure.operation.location:
            out.append(f"location: {failure.operation.location}")
    elif diagnosis.functions:
        source = "the source line" if _is_in_source(diagnosis) else "the log"
        out.append(f"function: {', or '.join(diagnosis.functions)}, according to {source}")
    elif failure.mentioned:
        mentioned = " or ".join(PREFIX + name for name in failure.mentioned)
        out.append(f"function: not shown; perhaps {mentioned}, which the text mentions")
    if diagnosis.gather is not None:
        out.append(diagnosis.gather.line())
    if failure.call is not None:
        out.append(f"called from {failure.call.where or 'an unknown place'}: {failure.call.source}")
    if failure.test:
        out.append(f"test: {failure.test}")
    if failure.verdict.thrown_at:
        out.append(f"thrown at {failure.verdict.thrown_at}")
    if diagnosis.never_ran:
        names = [f"{op.results[0].name} {op.name}" if op.results else op.name for op in diagnosis.never_ran]
        more = f" and {len(names) - MAX_LATER} more" if len(names) > MAX_LATER else ""
        out.append(f"never ran: {', '.join(names[:MAX_LATER])}{more}")
    return out


def _call_lines(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.case is not None:
        without = f" (without {', '.join(diagnosis.left_out)}: program buffers may differ)" if diagnosis.left_out else ""
        return [f"call: {call_text(diagnosis.case)}{without}", f"  {probe_command(diagnosis.case)}"]
    return unknown_call_lines(diagnosis)


def _replays(diagnosis: Diagnosis) -> list[str]:
    out = []
    kind = "replay of the candidate" if diagnosis.candidate else "replay"
    for replay in diagnosis.replays:
        result = replay.result
        live = f" with {_live_text(replay)}" if replay.live else ""
        alone = "" if replay.live or not (replay.explains or result.works) else "; nothing else was allocated here"
        out.append(f"{kind} on {result.device_mode} {result.board}, ttnn {result.ttnn}{live}: {replay.outcome()}{alone}")
        out += [f"  then {later.line()}" for later in replay.later]
    if diagnosis.candidate is not None and diagnosis.candidate.case is not None:
        doubt = _no_proof(diagnosis.candidate, diagnosis.candidate_count)
        out.append(f"  the candidate: {call_text(diagnosis.candidate.case)}; {doubt}")
        out.append(f"  {probe_command(diagnosis.candidate.case)}")
    if diagnosis.case_given and diagnosis.replays and not diagnosis.is_explained:
        out.append(_contradiction(diagnosis))
    return [*out, *diagnosis.not_replayed]


def _no_proof(candidate: Candidate, count: int) -> str:
    if candidate.sizes_from:
        return f"its sizes are those of {candidate.sizes_from}, the rest is assumed"
    among = f"one of {count} calls of the catalogs that request" if count > 1 else "the only call of the catalogs that requests"
    return f"not proven: it was chosen for these bytes, {among} them"


def _contradiction(diagnosis: Diagnosis) -> str:
    """Returns that the given call is not the one; of a report whose build may be none of those here, that it is not shown."""
    first, here = diagnosis.replays[0], {replay.result.ttnn for replay in diagnosis.replays}
    does = "it requests other bytes" if first.same_kind else "it fits" if first.result.works else "it ends differently"
    if first.live_from is LiveSource.ASSUMED:
        return f"the given call is not shown to explain the numbers: among the assumed buffers {does}"
    builds = [match.build for match in diagnosis.explanation.fingerprint.matches]
    if builds and all(build is not None and not here.isdisjoint(build.releases) for build in builds):
        return f"the given call does not explain the numbers: {does}"
    return f"the given call does not explain the numbers on these releases ({does}); the report may be of another build"


def _live_text(replay: Replay) -> str:
    """Describes what was allocated before the call, and who says so."""
    live = replay.live
    sizes = {r.memory: sum(x.bytes_per_bank for x in live if x.memory is r.memory and not x.freed) for r in live}
    holes = sum(resident.freed for resident in live)
    taken = " and ".join(f"{size:,} B of each {str(memory).upper()} bank" for memory, size in sizes.items())
    between = f", around {holes} free block{'s' if holes > 1 else ''} placed by assumption" if holes else ""
    return f"{taken} allocated before{_LIVE_SOURCES[replay.live_from]}{between}"


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the diagnosis as the value of one failure in the JSON output."""
    failure, operation = diagnosis.failure, diagnosis.failure.operation
    verdict = failure.verdict
    numbers = {k: v for k, v in vars(verdict).items() if isinstance(v, int) and not isinstance(v, bool)}
    return {
        "line": failure.line,
        "times": failure.times,
        "process": failure.process,
        "processes": list(failure.processes),
        "test": failure.test,
        "kind": str(failure.kind),
        "memory_failure": None
        if failure.kind in (FailureKind.CUT, FailureKind.ECHO, FailureKind.SUSPECT)
        else diagnosis.is_memory,
        "cut": failure.is_cut,
        "headline": diagnosis.explanation.headline,
        "functions": list(diagnosis.functions),
        "mentioned": [PREFIX + name for name in failure.mentioned],
        "printed_shapes": [{"shape": list(s.shape), "dtype": s.dtype and str(s.dtype), "line": s.line} for s in failure.shapes],
        "status": str(verdict.status),
        "resource": str(verdict.resource) if verdict.resource else None,
        "message": verdict.message,
        "numbers": numbers,
        "cores": verdict.cores,
        "operation": None if operation is None else _operation_json(operation),
        "call_line": None if failure.call is None else {"where": failure.call.where, "source": failure.call.source},
        "never_ran": [_operation_json(op) for op in diagnosis.never_ran],
        "explanation": diagnosis.explanation.to_json(),
        "case": None if diagnosis.case is None else diagnosis.case.identity(),
        "command": None if diagnosis.case is None else probe_command(diagnosis.case),
        "left_out": list(diagnosis.left_out),
        "why_no_case": diagnosis.why_no_case,
        "case_given": diagnosis.case_given,
        "candidates": [_candidate_json(candidate) for candidate in diagnosis.candidates],
        "candidate_count": diagnosis.candidate_count,
        "shapes": [shape.line() for shape in diagnosis.shapes],
        "replays": [replay.to_json() for replay in diagnosis.replays],
        "of_candidate": diagnosis.candidate is not None,
        "not_replayed": list(diagnosis.not_replayed),
        "gather": None if diagnosis.gather is None else diagnosis.gather.line(),
        "indices_known": None if diagnosis.gather is None else diagnosis.gather.indices_known,
        "padding": [
            {
                "ttnn": p.result.ttnn,
                "fits": p.result.works,
                "code": list(p.result.code),
                "values": asdict(p.changes.values) if p.changes else None,
            }
            for p in diagnosis.padded
        ],
        "remedies": to_json(diagnosis.remedies) if isinstance(diagnosis.remedies, RemedyReport) else None,
        "notes": list(diagnosis.notes),
    }


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "text": candidate.line(),
        "case": None if candidate.case is None else candidate.case.identity(),
        "told_by": candidate.sizes_from,
        "calls": candidate.calls,
    }


def _operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "results": [value.name for value in operation.results],
        "location": operation.location,
        "line": operation.line,
    }
