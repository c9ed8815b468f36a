"""From a case to what is told of it: it fails, these changes were tried, these work, this is what they keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from packaging.version import Version

from ssinghal.core.case import Case
from ssinghal.core.record import DecidedBy, Status, Usage, Verdict
from ssinghal.core.tensors import BufferType, DType
from ssinghal.device.releases import added_releases, installed_release
from ssinghal.errors import InvalidCase
from ssinghal.precision.storage_error import StorageLoss
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.equivalence import ValueCheck
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.replicate_padding import REPLICATE, ModelChange, constant_case
from ssinghal.remedy.search import Budget, RejectedStrategy, Remedies, search
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import Impact, LiveSet, TrialResult


@dataclass(frozen=True)
class Unsolved:
    """Why there is nothing to search for: the call fits, or it fails for another reason than memory.

    Attributes:
        case: The call.
        verdict: How it ends.
        tried: The run of the call, if it fits.
        changes: For a replicate padding, what constant padding would give in its place.
    """

    case: Case
    verdict: Verdict
    tried: TrialResult | None = None
    changes: ModelChange | None = None


def solve(
    case: Case,
    bench: DevicePools,
    budget: Budget = Budget(),
    live: LiveSet = (),
    verdict: Verdict | None = None,
    trace_region_bytes: int = 0,
    only: Iterable[Impact] = tuple(Impact),
    measured: bool = False,
) -> RemedyReport | Unsolved:
    """Searches remedies of ``case`` beside ``live``, and says what each keeps of the values.

    ``verdict``: how it fails, where that is known; else it is probed. ``measured``: each remedy runs once more, for what TTNN's
    calls hold on the way. A case that has no call is not solved, and says why.
    """
    verdict, usage = (verdict, None) if verdict else _failing(case, bench, live)
    changes = padding_changes(case, bench)
    if verdict.status is not Status.OOM:
        return Unsolved(case, verdict, _made(case, verdict, bench, live), changes)
    try:
        board = bench.board_of("", trace_region_bytes)
        problem = Problem.of(case, verdict, board, live, newer_than(bench.ttnn), trace_region_bytes)
    except InvalidCase as error:
        return Unsolved(case, Verdict(Status.INVALID, decided_by=DecidedBy.ARITHMETIC, message=str(error)))
    found = search(problem, bench.run, budget, only=only)
    before = _before(problem, usage)
    values: dict[str, ValueCheck] = {}
    storage: dict[str, tuple[StorageLoss, ...]] = {}
    for remedy in found.found:
        if remedy.contract in (Impact.CHUNKED, Impact.REARRANGED):
            values[remedy.lever] = bench.values(remedy.tried.trial)
        if remedy.contract is Impact.DTYPE:
            storage[remedy.lever] = bench.storage(DType(remedy.tried.trial.case.placement.dtype))
    inside = {remedy.lever: bench.inside(remedy.tried.trial) for remedy in found.found} if measured else {}
    return RemedyReport(without_other_values(found, values), values, storage, changes, before, inside)


def without_other_values(remedies: Remedies, values: Mapping[str, ValueCheck]) -> Remedies:
    """A rewrite that torch says has other values is no remedy."""
    other = [r for r in remedies.found if (check := values.get(r.lever)) and check.equal is False and not check.rounding]
    refused = [RejectedStrategy(r.lever, r.contract, "it fits, with other values in torch", r.probes) for r in other]
    kept = tuple(r for r in remedies.found if r not in other)
    return replace(remedies, found=kept, refused=(*remedies.refused, *refused))


def _before(problem: Problem, usage: Usage | None) -> dict[BufferType, int]:
    """What the call as it was takes per bank, were there room, and what lives: as TTNN captured it, else its tensors alone."""
    made, held = problem.estimate(problem.case), {}
    for kind in (BufferType.L1, BufferType.DRAM):
        own = usage.of_memory(kind) if usage else made.peak_bytes_per_bank.get(kind, 0)
        lives = sum(r.bytes_per_bank for r in problem.live if r.memory is kind and not r.freed)
        held[kind] = own + lives
    return {kind: size for kind, size in held.items() if size}


def _made(case: Case, verdict: Verdict, bench: DevicePools, live: LiveSet) -> TrialResult | None:
    return bench.run(Problem.of(case, verdict, bench.board, live).trial()) if verdict.status is Status.FITS else None


def padding_changes(case: Case, bench: DevicePools, release: str = "") -> ModelChange | None:
    """For a replicate padding: what constant padding would give in its place."""
    if case.operator not in REPLICATE:
        return None
    values = bench.padding(case)
    if values is None:
        return None
    constant = constant_case(case)
    problem = Problem.of(constant, Verdict(Status.FITS), bench.board_of(release))
    return ModelChange(values, bench.run(bench.on(release, problem.trial())))


def _failing(case: Case, bench: DevicePools, live: LiveSet) -> tuple[Verdict, Usage | None]:
    """How it ends beside what lives, and what it takes by itself."""
    record = bench.probe(case)
    if not live or record.status is not Status.FITS:
        return record.verdict, record.usage
    problem = Problem.of(case, record.verdict, bench.board, live)
    return bench.run(problem.trial()).verdict, record.usage


def newer_than(version: str) -> tuple[str, ...]:
    """Releases that are here and newer, the oldest first."""
    installed = installed_release()
    known = {r.version for r in (*added_releases(), *([installed] if installed else []))}
    return tuple(v for v in sorted(known, key=Version) if Version(v) > Version(version))


def solve_all(
    cases: Iterable[tuple[Case, Verdict | None]],
    bench: DevicePools,
    budget: Budget = Budget(),
    live: LiveSet = (),
    *,
    measured: bool = False,
) -> Iterator[RemedyReport | Unsolved]:
    """In the order of the cases, as many at a time as there are workers."""
    with ThreadPoolExecutor(bench.options.workers, "remedy") as executor:
        futures = [executor.submit(solve, case, bench, budget, live, verdict, measured=measured) for case, verdict in cases]
        try:
            for future in futures:
                yield future.result()
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
