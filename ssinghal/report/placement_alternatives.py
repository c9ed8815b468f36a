"""What would make failing calls fit: placements that this run tried and saw fit, and placements that arithmetic says fit.

Nothing here is guessed: a placement was probed in the same run, or its tensors and program buffers are exact sums
(``ssinghal.estimation.estimator``). Where TTNN allocates more than arithmetic knows of, the answer is unknown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.record import Prediction, Record, Status
from ssinghal.core.tensors import Board, BufferType, Layout, TextEnum
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.runs.reader import case_or_none


class PlacementRemedy(TextEnum):
    """One change of placement that leaves the values as they are."""

    DRAM = "operands and result in DRAM"
    TORCH_ORDER = "torch's order of dims instead of channels last"
    ROW_MAJOR = "row-major layout instead of tiles"


class Answer(TextEnum):
    """Tried: there is a record of it, of the same run or of a probe since. Unknown: TTNN's temporaries or program buffers have
    no formula."""

    TRIED = "tried, fits"
    FITS = "fits by arithmetic"
    UNKNOWN = "tensors fit, the rest is unknown"
    EXCEEDS = "does not fit by arithmetic"
    TRIED_FAILS = "tried, does not fit"
    NO_CALL = "tried, TTNN does not make the call so"
    NO_VERDICT = "tried, no verdict"


@dataclass(frozen=True)
class Alternative:
    """``bytes_per_bank``: what all tensors take together in the kind of memory they would go to, by arithmetic."""

    remedy: PlacementRemedy
    answer: Answer
    memory: BufferType
    bytes_per_bank: int
    bank_bytes: int

    def __str__(self) -> str:
        taken = f"{self.bytes_per_bank:,} of {self.bank_bytes:,} B per {str(self.memory).upper()} bank"
        return f"{self.remedy}: {self.answer} ({taken})"


class Alternatives:
    """Answers for the failing records of one group.

    ``records``: all of the group, and ``tried`` what was probed since of its remedies; both are looked up for the changed call.
    """

    def __init__(self, records: Iterable[Record], tried: Iterable[Record] = ()) -> None:
        self._same_call: dict[str, list[Record]] = defaultdict(list)
        for record in (*records, *tried):
            self._same_call[_call(record)].append(record)

    def of(self, record: Record) -> tuple[Alternative, ...]:
        """What each remedy that applies to the call comes to. Nothing for a board or an operator that this version lacks."""
        return tuple(alternative for alternative, _ in self._answered(record))

    def open(self, failing: Iterable[Record]) -> tuple[Case, ...]:
        """The changed calls that a probe would decide, each once."""
        found = [pair for record in failing for pair in self._answered(record)]
        return tuple({case.key: case for alternative, case in found if alternative.answer is Answer.UNKNOWN}.values())

    def _answered(self, record: Record) -> Iterator[tuple[Alternative, Case]]:
        case = case_or_none(record)
        board = _board(record.board)
        if case is None or board is None:
            return
        padded = any(a.padding_factor > 1 for a in record.allocations)
        for remedy in PlacementRemedy:
            changed = _changed(case, remedy, padded=padded)
            made = None if changed is None else _complete_estimate(changed, board)
            if changed is None or made is None:
                continue
            answer, tried = _BY_ARITHMETIC[made.verdict], self._tried(record, changed)
            if tried is not None and (tried is not Answer.NO_VERDICT or answer is Answer.UNKNOWN):
                answer = tried
            memory = changed.placement.memory
            taken = made.peak_bytes_per_bank.get(memory, 0)
            yield Alternative(remedy, answer, memory, taken, made.board.region(memory).bank_bytes), changed

    def _tried(self, record: Record, changed: Case) -> Answer | None:
        """What was found of the changed call, if it was tried: a fit or an OOM before anything else."""
        answers = [
            _TRIED.get(other.status, Answer.NO_VERDICT)
            for other in self._same_call[_call(record)]
            if other is not record and (case := case_or_none(other)) is not None and _placed(case) == _placed(changed)
        ]
        return min(answers, key=list(Answer).index, default=None)


_TRIED = {
    Status.FITS: Answer.TRIED,
    Status.OOM: Answer.TRIED_FAILS,
    **dict.fromkeys((Status.UNSUPPORTED, Status.INVALID, Status.ERROR), Answer.NO_CALL),
}
_BY_ARITHMETIC = {Prediction.FITS: Answer.FITS, Prediction.EXCEEDS: Answer.EXCEEDS, Prediction.UNKNOWN: Answer.UNKNOWN}


def _complete_estimate(case: Case, board: Board) -> MemoryEstimate | None:
    """None for a call that cannot be made so."""
    try:
        made = estimate(case, board)
    except InvalidCase:
        return None
    return made if made.complete else None


@dataclass(frozen=True)
class Advice:
    """One remedy over all failing cases of a group that it applies to, as counts of cases."""

    remedy: PlacementRemedy
    answers: Mapping[Answer, int]
    calls: int
    """Calls of models among the cases that fit so, tried or by arithmetic."""

    @property
    def cases(self) -> int:
        return sum(self.answers.values())


def advice(found: Sequence[tuple[Record, Sequence[Alternative]]]) -> tuple[Advice, ...]:
    """``found``: failing records with their alternatives. Remedies in their order, those of no case left out."""
    listed = []
    for remedy in PlacementRemedy:
        answered = [(record, a.answer) for record, alternatives in found for a in alternatives if a.remedy is remedy]
        counts = {answer: sum(given is answer for _, given in answered) for answer in Answer}
        calls = sum(record.calls for record, given in answered if given in (Answer.TRIED, Answer.FITS))
        if answered:
            listed.append(Advice(remedy, {answer: n for answer, n in counts.items() if n}, calls))
    return tuple(listed)


def _changed(case: Case, remedy: PlacementRemedy, *, padded: bool) -> Case | None:
    """``case`` with the remedy, or None where that changes nothing or, as with attributes that name dims, another call."""
    placement = case.placement
    if remedy is PlacementRemedy.DRAM:
        if placement.memory is BufferType.DRAM:
            return None
        placement = replace(placement, memory=BufferType.DRAM, output_memory=OutputMemory.SAME)
    elif remedy is PlacementRemedy.TORCH_ORDER:
        if not (placement.channels_last and padded) or case.attrs or not any(len(s) == 4 for s in case.inputs):
            return None
        placement = replace(placement, channels_last=False)
    else:
        if placement.layout is Layout.ROW_MAJOR or not padded:
            return None
        placement = replace(placement, layout=Layout.ROW_MAJOR)
    return replace(case, placement=placement)


def _call(record: Record) -> str:
    """What stays the same whatever the placement."""
    return json.dumps([record.operator, record.inputs, dict(record.attrs)], sort_keys=True)


def _placed(case: Case) -> Placement:
    """The placement with equal ways to write it made one: a result in DRAM beside operands in DRAM is with its inputs."""
    placement = case.placement
    same = placement.output_memory.value == placement.memory.value
    return replace(placement, output_memory=OutputMemory.SAME) if same else placement


@cache
def _board(name: str) -> Board | None:
    try:
        return load_board(name)
    except InvalidCase:
        return None
