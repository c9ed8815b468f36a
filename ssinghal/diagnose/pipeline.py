"""Diagnoses each failure of a log: the call, why it fails, what a replay shows, what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.case import Case, call_text
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource, Status, Verdict, sentence
from ssinghal.diagnose.call_arguments import CallArguments, call_arguments
from ssinghal.diagnose.candidate import Candidate
from ssinghal.diagnose.candidate_evidence import Evidence
from ssinghal.diagnose.candidates import candidates
from ssinghal.diagnose.explanation import Explanation, explain
from ssinghal.diagnose.lowered_gather import Gather, gather_of
from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS, case_of, left_out
from ssinghal.diagnose.model import Failure, LogReading, MlirValue, Operation
from ssinghal.diagnose.parse.mlir_module import Places
from ssinghal.diagnose.printed_shapes import MatchingShape, matching_shapes
from ssinghal.diagnose.replay import Replay, replay, replay_later
from ssinghal.diagnose.source_calls import SourceCall, arguments_in, calls_on, source_calls
from ssinghal.diagnose.ttnn_functions import PREFIX, operators_calling
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.replicate_padding import ModelChange
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import Unsolved, padding_changes, solve
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import LiveSet, TrialResult

MAX_CANDIDATES = 5  # calls of the catalogs that are named and replayed
MAX_SOUGHT = 10_000
MAX_LATER = 12  # operations that never ran and are named or tried


@dataclass(frozen=True)
class Padded:
    """The result of replicate padding by slices and concat. ``changes``: of the values, compared with constant padding."""

    result: TrialResult
    changes: ModelChange | None

    def lines(self) -> list[str]:
        outcome = "fits" if self.result.works else sentence(self.result.verdict)
        where = f"{self.result.device_mode} {self.result.board}, ttnn {self.result.ttnn}"
        details = (*self.result.code, *(self.changes.lines() if self.changes else ()))
        return [f"{call_text(self.result.trial.case)} on {where}: {outcome}", *(f"  {line}" for line in details)]


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one failure.

    Attributes:
        failure: What the text holds: line, operation, and ``verdict`` with the numbers of the message, in bytes.
        explanation: What the numbers mean: the buffer, and the boards and releases that they point to.
        never_ran: Operations of the module after the one that failed.
        functions: Functions of TTNN that the text names, the likeliest first.
        case: The call, None where it is not known.
        case_given: Whether the user named the call.
        why_no_case: Why the call is not known.
        left_out: What the operation has that the call does not.
        candidates: Where the call is not known, calls with the sizes of the text, then the first of the catalogs'.
        candidate_count: Number of calls of the catalogs that fit the numbers.
        shapes: Those that the text prints near the message and that have its bytes.
        arguments: Where the call is not known, what the text states of its settings and its result.
        replays: One for each requested release, of ``candidate`` where the call is not known.
        candidate: The one that fails with the same numbers.
        not_replayed: Why there is no replay on a release.
        remedies: What makes the call fit, if that was searched for.
        gather: The gather that the operation is a step of.
        padded: If that is replicate padding, the padding by slices and concat on each release.
        notes: Remarks on the replays.
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
    shapes: tuple[MatchingShape, ...] = ()
    arguments: CallArguments | None = None
    replays: tuple[Replay, ...] = ()
    candidate: Candidate | None = None
    not_replayed: tuple[str, ...] = ()
    remedies: RemedyReport | Unsolved | None = None
    gather: Gather | None = None
    padded: tuple[Padded, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_replayable(self) -> bool:
        """Whether a call is known, or a candidate for it, or the gather that was being made, and can show what ran out."""
        if self.failure.verdict.resource in (Resource.HOST, Resource.TRACE_BUFFER):
            return False
        return self.case is not None or self.gather is not None or any(not one.by_arithmetic for one in self.candidates)

    @property
    def is_explained(self) -> bool:
        """Whether a replay requests what the message has."""
        return any(replay.explains for replay in self.replays)

    @property
    def is_memory(self) -> bool:
        return self.failure.verdict.resource is not None


def diagnose_failures(
    reading: LogReading, call: Case | None = None, reported: Callable[[Failure], Case | None] = lambda failure: None
) -> Iterator[Diagnosis]:
    """Yields a diagnosis of each failure, without a device.

    The call is ``call``, one ``reported`` by ``ssinghal exec``, or the one in the text; otherwise candidates are searched for,
    which takes about a second.
    """
    return (_diagnosis(failure, reading, call or reported(failure)) for failure in reading.failures)


def _diagnosis(failure: Failure, reading: LogReading, call: Case | None) -> Diagnosis:
    explanation = explain(failure)
    is_first = failure is next(iter(reading.memory_failures), None)
    diagnosis = Diagnosis(
        failure,
        explanation,
        _never_ran(failure, reading) if is_first else (),
        _functions(failure),
        gather=gather_of(failure.operation, reading.module),
    )
    if not diagnosis.is_memory:
        return diagnosis
    if call is not None:
        return replace(diagnosis, case=_with_l1_small(call, explanation), case_given=True)
    if failure.operation is None and (printed := _printed_case(failure, diagnosis.functions)) is not None:
        return replace(diagnosis, case=_with_l1_small(printed.case, explanation), left_out=printed.left_out)
    if failure.operation is None:
        return _with_candidates(replace(diagnosis, why_no_case="the text names no operation with its tensors"))
    try:
        case = case_of(failure.operation)
    except InvalidCase as error:
        return _with_candidates(replace(diagnosis, why_no_case=str(error)))
    return replace(diagnosis, case=_with_l1_small(case, explanation), left_out=left_out(failure.operation))


def _printed_case(failure: Failure, functions: Sequence[str]) -> SourceCall | None:
    """Returns the call that TTNN printed with all its tensors and their memory, None where it printed none."""
    if not failure.printed:
        return None
    texts = {**arguments_in(failure.call, functions), **failure.arguments}
    return next(calls_on(failure.printed, functions, None, texts), None)


def _never_ran(first: Failure, reading: LogReading) -> tuple[Operation, ...]:
    """Returns the operations that never ran: only those after the last one that failed later.

    The failure may have been caught, or another process may have continued.
    """
    places = Places(reading.never_ran)
    later = [places.of(failure.operation).at for failure in reading.failures if failure.line > first.line]
    return reading.never_ran[max((at + 1 for at in later if at is not None), default=0) :]


def _functions(failure: Failure) -> tuple[str, ...]:
    """Returns the functions with ``ttnn.``: of the operation where there is one, else those that the text names."""
    names = (failure.operation.name,) if failure.operation else failure.functions
    return tuple(dict.fromkeys(PREFIX + name.removeprefix(PREFIX) for name in names))


def _with_candidates(diagnosis: Diagnosis) -> Diagnosis:
    """Adds candidates: calls whose sizes are in the text, then calls of the catalogs."""
    failure, functions, fingerprint = diagnosis.failure, diagnosis.functions, diagnosis.explanation.fingerprint
    memory = requested_memory(diagnosis)
    texts = {**arguments_in(failure.call, functions), **failure.arguments}
    operands = tuple(MlirValue("", spec) for spec in failure.tensors)
    info = _operator_of(functions)
    in_text = [
        *(source_calls(failure.call, memory, failure.arguments) if failure.call else ()),
        *calls_on(operands, functions, memory, texts),
    ]
    evidence = Evidence.of(failure, functions or failure.mentioned)
    by_bytes = candidates(failure.verdict, fingerprint, MAX_SOUGHT, functions=functions, supports=evidence.supports)
    return replace(
        diagnosis,
        shapes=tuple(matching_shapes(failure.shapes, failure.verdict, fingerprint.board(failure.verdict))),
        arguments=call_arguments(texts, info) if info else None,
        candidates=(*map(Candidate.from_source, in_text), *by_bytes[:MAX_CANDIDATES]),
        candidate_count=sum(not candidate.by_arithmetic for candidate in by_bytes),
    )


def _operator_of(functions: Sequence[str]) -> OperatorInfo | None:
    """Returns the operator that makes the call of the likeliest function, if there is one alone."""
    name = functions[0].removeprefix(PREFIX) if functions else ""
    operators = {OP_MAPPINGS[name].operator} if name in OP_MAPPINGS else operators_calling(name)
    return find_operator(next(iter(operators))) if len(operators) == 1 else None


def _with_l1_small(case: Case, explanation: Explanation) -> Case:
    """Returns ``case`` with the L1_SMALL region that the size of the bank implies, unless it states one of its own."""
    size = explanation.fingerprint.l1_small_bytes
    usual = (None, find_operator(case.operator).traits.l1_small_bytes)
    if size is None or case.placement.l1_small_bytes not in usual:
        return case
    return replace(case, placement=replace(case.placement, l1_small_bytes=size))


def with_replays(diagnosis: Diagnosis, pools: DevicePools, releases: Sequence[str], live: LiveSet | None) -> Diagnosis:
    """Adds replays on each of ``releases``."""
    if not diagnosis.is_memory:
        return diagnosis
    if diagnosis.case is not None:
        replays, why_not = _replays(diagnosis.case, diagnosis, pools, releases, live)
        diagnosis = replace(diagnosis, replays=replays, not_replayed=why_not)
    else:
        diagnosis = _with_candidate(diagnosis, pools, releases, live)
    return replace(diagnosis, padded=tuple(_padded(diagnosis.gather, pools, releases)) if diagnosis.gather else ())


def with_remedies(diagnosis: Diagnosis, pools: DevicePools, budget: Budget | None) -> Diagnosis:
    """Adds remedies for the first replay, if that fails; none without a budget."""
    replays = diagnosis.replays
    case = diagnosis.candidate.case if diagnosis.candidate else diagnosis.case
    failing = next((r for r in replays if r.result.verdict.resource is not None), None)
    if case is None or budget is None or failing is None:
        return diagnosis
    if failing is not replays[0]:
        return replace(
            diagnosis,
            notes=(*diagnosis.notes, f"no search for remedies: on ttnn {replays[0].result.ttnn} the call fits as it is"),
        )
    trace = diagnosis.explanation.fingerprint.trace_region_bytes
    return replace(diagnosis, remedies=solve(case, pools, budget, failing.live, failing.result.verdict, trace, measured=True))


def _padded(gather: Gather, pools: DevicePools, releases: Sequence[str]) -> Iterator[Padded]:
    try:
        case = gather.case()
    except InvalidCase:
        return
    for release in releases:
        problem = Problem.of(case, Verdict(Status.FITS), pools.board_of(release))
        yield Padded(pools.run(pools.on(release, problem.trial())), padding_changes(case, pools, release))


def _replays(
    case: Case, diagnosis: Diagnosis, pools: DevicePools, releases: Sequence[str], live: LiveSet | None
) -> tuple[tuple[Replay, ...], tuple[str, ...]]:
    """Returns a replay on each release, and why there is none on the others."""
    reported, fingerprint = diagnosis.failure.verdict, diagnosis.explanation.fingerprint
    bases = [m.base_bytes for m in fingerprint.matches if m.arch == pools.board.arch and m.base_bytes is not None]
    replays, why_not = [], []
    for release in releases:
        try:
            replayed = replay(case, reported, pools, release, live, fingerprint.trace_region_bytes, bases)
        except InvalidCase as error:
            why_not.append(f"no replay on ttnn {release}: {error}")
            continue
        if replayed.result.works and diagnosis.never_ran:
            replayed = replace(replayed, later=tuple(replay_later(diagnosis.never_ran[:MAX_LATER], pools, release)))
        replays.append(replayed)
    return tuple(replays), tuple(why_not)


def _with_candidate(diagnosis: Diagnosis, pools: DevicePools, releases: Sequence[str], live: LiveSet | None) -> Diagnosis:
    """Adds the first candidate that fails with exactly the numbers of the message on the first release, replayed on all."""
    cases = [(one, _with_l1_small(one.case, diagnosis.explanation)) for one in diagnosis.candidates if one.case is not None]
    for candidate, case in cases:
        first, _ = _replays(case, diagnosis, pools, releases[:1], live)
        if first and first[0].same_numbers:
            others, _ = _replays(case, diagnosis, pools, releases[1:], live)
            return replace(diagnosis, candidate=replace(candidate, case=case), replays=(*first, *others))
    note = f"no candidate fails with these numbers on ttnn {releases[0]}"
    return replace(diagnosis, notes=(note,)) if cases else diagnosis


def requested_memory(diagnosis: Diagnosis) -> BufferType | None:
    """Returns the memory of the buffer whose bytes the message names."""
    return diagnosis.explanation.buffer.memory if diagnosis.explanation.buffer else None
