"""Replays the call of a failure on a virtual device, with as much allocated as on the real one, and compares the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TextEnum
from ssinghal.core.verdict import Resource, Status, Verdict, sentence
from ssinghal.diagnose.comparison import OF_CALL, BaseShift, ComparedNumber, base_shift, compared
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.diagnose.live_sets import implied_live_sets, least_live_set
from ssinghal.diagnose.mlir_to_case import case_of
from ssinghal.diagnose.model import Operation
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.trial import LiveSet, TrialResult


class LiveSource(TextEnum):
    """Where the buffers that a replay places before the call come from."""

    NONE = "none"
    GIVEN = "given"  # by the user
    IMPLIED = "implied"  # by the numbers of the message, which the call alone does not have
    ASSUMED = "assumed"  # all that was allocated but the call's operands, though some may be its temporary tensors
    LEAST = "least"  # the message does not show what was allocated; with less the call would fit


@dataclass(frozen=True)
class Replay:
    """The result of the call on one board and release, with ``live`` allocated before.

    ``numbers``: those of the reported message. ``later``: results of operations that never ran, tried where the call itself
    fits. ``shift``: the difference of reserved bases that explains the numbers that are not equal.
    """

    result: TrialResult
    reported: Verdict
    live: LiveSet
    numbers: tuple[ComparedNumber, ...]
    later: tuple[LaterOperation, ...] = ()
    live_from: LiveSource = LiveSource.NONE
    shift: BaseShift | None = None

    @property
    def same_kind(self) -> bool:
        """Whether the replay ran out of the same resource as reported."""
        verdict = self.result.verdict
        memory = memory_of(verdict)
        same = verdict.resource is self.reported.resource or (memory is not None and memory is memory_of(self.reported))
        return verdict.status is Status.OOM and same

    @property
    def same_numbers(self) -> bool:
        """Whether the replay failed with all numbers of the reported message."""
        return self.same_kind and all(number.equal for number in self.numbers)

    @property
    def is_exact(self) -> bool:
        """Whether the replay failed with the numbers of the message, up to one difference of reserved bases."""
        return self.same_numbers or (self.same_kind and self.shift is not None)

    @property
    def explains(self) -> bool:
        """Whether the call requests what the message has; what else was allocated, and the bank, may differ."""
        return self.is_exact or (self.same_kind and all(n.equal for n in self.numbers if n.name in OF_CALL))

    @property
    def has_banks(self) -> bool:
        """Whether the buffer that does not fit is on as many banks as reported."""
        return self.same_kind and self.result.verdict.banks == self.reported.banks

    def outcome(self) -> str:
        """Describes in a line whether it fails here, and with the same numbers."""
        verdict = self.result.verdict
        if verdict.status is Status.FITS:
            return "it fits"
        if not self.same_kind:
            return f"it ends differently: {verdict.status}, {sentence(verdict)}"
        if not self.numbers:
            return f"it fails in the same way, and the report has no numbers: {sentence(verdict)}"
        if self.same_numbers:
            return f"it fails with the same numbers, all {len(self.numbers)}"
        differing = [number for number in self.numbers if not number.equal]
        equal = f"{len(self.numbers) - len(differing)} of {len(self.numbers)} numbers equal"
        cause = f"; {self.shift.line()}" if self.shift else ""
        return f"it fails in the same way, {equal}: {'; '.join(map(str, differing))}{cause}"

    def to_json(self) -> dict[str, Any]:
        """Returns the replay as plain values."""
        return {
            "board": self.result.board,
            "ttnn": self.result.ttnn,
            "device_mode": self.result.device_mode,
            "status": str(self.result.verdict.status),
            "says": sentence(self.result.verdict) if self.result.verdict.status is not Status.FITS else "",
            "same_kind": self.same_kind,
            "same_figures": self.same_numbers,
            "figures": [asdict(number) | {"equal": number.equal} for number in self.numbers],
            "live": [{"memory": str(r.memory), "bytes_per_bank": r.bytes_per_bank, "freed": r.freed} for r in self.live],
            "live_from": str(self.live_from),
            "live_is_least": self.live_from is LiveSource.LEAST,
            "base_shift": None if self.shift is None else {"here": self.shift.here_bytes, "there": self.shift.there_bytes},
            "later": [later.to_json() for later in self.later],
            "code": list(self.result.code),
        }


@dataclass(frozen=True)
class LaterOperation:
    """The result of an operation that never ran in the log: ``verdict``, or ``why_not`` it was tried."""

    operation: Operation
    verdict: Verdict | None = None
    why_not: str = ""

    def line(self) -> str:
        results = ", ".join(value.name for value in self.operation.results)
        name = f"{results} {self.operation.name}" if results else self.operation.name
        if self.verdict is None:
            return f"{name}: not tried ({self.why_not})"
        return f"{name}: {'fits' if self.verdict.status is Status.FITS else sentence(self.verdict)}"

    def to_json(self) -> dict[str, Any]:
        status = str(self.verdict.status) if self.verdict else "not_run"
        return {"operation": self.operation.name, "line": self.operation.line, "status": status, "text": self.line()}


def replay(
    case: Case,
    reported: Verdict,
    pools: DevicePools,
    release: str = "",
    live: LiveSet | None = None,
    trace_region_bytes: int = 0,
    bases: Sequence[int] = (),
) -> Replay:
    """Runs ``case`` on the board of ``pools`` with ``release`` (their own where empty).

    ``live``: buffers allocated before it. Without them the call first runs alone, which shows what it takes by itself. Where it
    then has other numbers than the message, it runs again with the buffers that the message implies, and these stand only if
    the call then requests what the message has. ``bases``: reserved by the builds that the report points to.

    Raises:
        InvalidCase: the call cannot be made at all.
    """
    board = pools.board_of(release, trace_region_bytes)
    problem = Problem.of(case, reported, board, trace_region_bytes=trace_region_bytes)

    def replay_with(residents: LiveSet, source: LiveSource) -> Replay:
        result = pools.run(pools.on(release, problem.trial(live=residents)))
        numbers = tuple(compared(reported, result.verdict))
        shift = base_shift(reported, numbers, result.reserved_base_bytes, problem.board, bases)
        return Replay(result, reported, residents, numbers, live_from=source, shift=shift)

    if live is not None:
        return replay_with(live, LiveSource.GIVEN if live else LiveSource.NONE)
    alone = replay_with((), LiveSource.NONE)
    if alone.is_exact:
        return alone
    replays: list[Replay] = []
    for residents in implied_live_sets(reported, problem.case, problem.board, alone.result.verdict):
        replays.append(replay_with(residents, LiveSource.IMPLIED))
        if replays[-1].is_exact:
            return replays[-1]
    if replays and reported.resource is not Resource.CLASH:  # in a clash, the call's own tensors may reach as low as live ones
        best = max(replays, key=lambda replayed: sum(number.equal for number in replayed.numbers))
        if best.explains or alone.explains:
            return best if best.explains else alone
        has_more = estimate(problem.case, problem.board).temporaries
        return replace(best, live_from=LiveSource.ASSUMED) if has_more else best
    least = least_live_set(reported, problem.case, problem.board) if alone.result.works else ()
    return replay_with(least, LiveSource.LEAST) if least else alone


def replay_later(operations: Sequence[Operation], pools: DevicePools, release: str = "") -> Iterator[LaterOperation]:
    """Runs each of the operations by itself, up to the first that runs out of memory."""
    for operation in operations:
        try:
            case = case_of(operation)
            problem = Problem.of(case, Verdict(Status.FITS), pools.board_of(release))
        except InvalidCase as error:
            yield LaterOperation(operation, why_not=str(error))
            continue
        verdict = pools.run(pools.on(release, problem.trial())).verdict
        yield LaterOperation(operation, verdict)
        if verdict.status is Status.OOM:
            return
