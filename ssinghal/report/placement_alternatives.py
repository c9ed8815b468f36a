"""Changes of placement that make failing calls fit, because they were probed or by arithmetic.

Nothing is guessed: a placement was probed in the same run, or its tensors and program buffers are exact sums
(``ssinghal.estimation.estimator``). If TTNN allocates more than arithmetic can predict, the answer is unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.estimate import Prediction
from ssinghal.core.record import Record
from ssinghal.core.tensors import Board, BufferType, Layout, TextEnum
from ssinghal.core.verdict import Status
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.runs.parsing import case_or_none
from ssinghal.runs.stored import complete


class PlacementRemedy(TextEnum):
    """One change of placement that keeps the values."""

    DRAM = "operands and result in DRAM"
    TORCH_ORDER = "torch's order of dims instead of channels last"
    ROW_MAJOR = "row-major layout instead of tiles"


class Answer(TextEnum):
    """Whether a call fits with a remedy. Tried: there is a record of the changed call, from the same run or a later probe.
    Unknown: TTNN's temporaries or program buffers have no formula."""

    TRIED = "tried, fits"
    FITS = "fits by arithmetic"
    UNKNOWN = "tensors fit, the rest is unknown"
    EXCEEDS = "does not fit by arithmetic"
    TRIED_FAILS = "tried, does not fit"
    NO_CALL = "tried, TTNN does not make the call so"
    NO_VERDICT = "tried, no verdict"


@dataclass(frozen=True, slots=True)  # two for each failing case of a run
class Alternative:
    """A remedy and its answer. ``bytes_per_bank``: of all tensors in the memory they would be placed in, by arithmetic."""

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

    ``records``: all records of the group. ``tried``: records of remedies probed since. The changed call is looked up in both.
    """

    def __init__(self, records: Iterable[Record], tried: Iterable[Record] = ()) -> None:
        every = (*records, *tried)
        failing = {record.call_digest for record in every if record.is_oom}
        self._same_call: dict[bytes, list[Record]] = defaultdict(list)
        for record in every:
            if record.call_digest in failing:
                self._same_call[record.call_digest].append(record)

    def of(self, record: Record) -> tuple[Alternative, ...]:
        """Returns the answer of each remedy that applies. Empty for a board or an operator that this version does not have."""
        return tuple(alternative for alternative, _ in self._answered(record))

    def open(self, failing: Iterable[Record]) -> tuple[Case, ...]:
        """Returns the distinct changed calls that only a probe can decide."""
        pairs = (pair for record in failing for pair in self._answered(record))
        return tuple({case.key: case for alternative, case in pairs if alternative.answer is Answer.UNKNOWN}.values())

    def _answered(self, record: Record) -> Iterator[tuple[Alternative, Case]]:
        known = complete(record)
        case = case_or_none(known)
        board = _board(record.board)
        if case is None or board is None:
            return
        padded = any(a.padding_factor > 1 for a in known.allocations)
        for remedy in PlacementRemedy:
            changed = _changed(case, remedy, padded=padded)
            predicted = None if changed is None else _complete_estimate(changed, board)
            if changed is None or predicted is None:
                continue
            answer, tried = _BY_ARITHMETIC[predicted.verdict], self._tried(record, changed)
            if tried is not None and (tried is not Answer.NO_VERDICT or answer is Answer.UNKNOWN):
                answer = tried
            memory = changed.placement.memory
            taken = predicted.peak_bytes_per_bank.get(memory, 0)
            yield Alternative(remedy, answer, memory, taken, predicted.board.region(memory).bank_bytes), changed

    def _tried(self, record: Record, changed: Case) -> Answer | None:
        """Returns the answer of the records of the changed call, preferring a fit, then an OOM. None if it was not tried."""
        answers = [
            _TRIED.get(other.status, Answer.NO_VERDICT)
            for other in self._same_call[record.call_digest]
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
    """Returns None for an invalid call."""
    try:
        predicted = estimate(case, board)
    except InvalidCase:
        return None
    return predicted if predicted.complete else None


@dataclass(frozen=True)
class Advice:
    """Counts the answers of one remedy over all failing cases of a group that it applies to."""

    remedy: PlacementRemedy
    answers: Mapping[Answer, int]
    calls: int
    """Calls of models in the cases that then fit, tried or by arithmetic."""

    @property
    def cases(self) -> int:
        return sum(self.answers.values())


def advice(failing: Sequence[tuple[Record, Sequence[Alternative]]]) -> tuple[Advice, ...]:
    """Returns the remedies that apply to any of the ``failing`` records, which come with their alternatives."""
    advices = []
    for remedy in PlacementRemedy:
        answers = [(record, a.answer) for record, alternatives in failing for a in alternatives if a.remedy is remedy]
        counts = Counter(answer for _, answer in answers)
        calls = sum(record.calls for record, answer in answers if answer in (Answer.TRIED, Answer.FITS))
        if answers:
            advices.append(Advice(remedy, {answer: counts[answer] for answer in Answer if counts[answer]}, calls))
    return tuple(advices)


def _changed(case: Case, remedy: PlacementRemedy, *, padded: bool) -> Case | None:
    """Returns ``case`` with the remedy, or None if it changes nothing, or the call itself, as with attributes that name
    dims."""
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


def _placed(case: Case) -> Placement:
    """Returns the placement in canonical form: a result in DRAM with operands in DRAM has the memory of its inputs."""
    placement = case.placement
    same = placement.output_memory.value == placement.memory.value
    return replace(placement, output_memory=OutputMemory.SAME) if same else placement


@cache
def _board(name: str) -> Board | None:
    try:
        return load_board(name)
    except InvalidCase:
        return None
