"""A diagnosis in words, in the order in which one asks, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ssinghal.core.case import call_text
from ssinghal.core.record import Resource, sentence
from ssinghal.core.tensors import BufferType
from ssinghal.diagnose.candidates import Candidate
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.pipeline import MAX_CANDIDATES, MAX_LATER, Diagnosis, memory_asked
from ssinghal.diagnose.replay import Replay
from ssinghal.diagnose.ttnn_functions import operators_calling
from ssinghal.remedy.text import RemedyReport, to_json
from ssinghal.remedy.text import lines as remedy_lines
from ssinghal.remedy.trial import LiveSet

ASKED = ("total_bytes", "banks", "bytes_per_bank", "program_bytes")  # what a message has of the call alone


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
    if isinstance(known.remedies, RemedyReport):
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
        more = f" and {len(names) - MAX_LATER} more" if len(names) > MAX_LATER else ""
        out.append(f"never ran: {', '.join(names[:MAX_LATER])}{more}")
    return out


def _call_lines(known: Diagnosis) -> list[str]:
    if known.case is not None:
        beside = f" (without {', '.join(known.left_out)}: program buffers may differ)" if known.left_out else ""
        return [f"call: {call_text(known.case)}{beside}"]
    out = [f"call: unknown; {known.why_no_case}"]
    if told := [c for c in known.candidates if c.told_by]:
        out += ["candidates, no finding: what the text has the sizes of", *(f"  {c.line()}" for c in told)]
    if sought := [c for c in known.candidates if not c.told_by]:
        more = f", {MAX_CANDIDATES} of {known.candidate_count} calls" if known.candidate_count > MAX_CANDIDATES else ""
        out += [f"candidates, no finding: what asks for exactly these bytes{more}", *(f"  {c.line()}" for c in sought)]
    if known.functions and not known.candidate_count and not told and _names_bytes(known):
        out.append(f"no call of the catalogs to {' or '.join(known.functions)} asks for these bytes")
    if known.failure.verdict.resource not in (Resource.HOST, Resource.TRACE_BUFFER):
        out.append(f"say the call itself with --call '{_call_to_say(known)}' (as for ssinghal probe)")
    return out


def _names_bytes(known: Diagnosis) -> bool:
    """Whether the message has the bytes of a buffer, by which calls are sought."""
    return memory_asked(known) in (BufferType.L1, BufferType.DRAM)


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
        "remedies": to_json(known.remedies) if isinstance(known.remedies, RemedyReport) else None,
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
