"""Probes a case, searches remedies where it runs out of memory, and checks what they keep of the values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from packaging.version import Version

from ssinghal.core.case import Case
from ssinghal.core.measured import Usage
from ssinghal.core.tensors import BufferType, DType
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.device.releases import added_releases, installed_release
from ssinghal.errors import InvalidCase
from ssinghal.operators.operator_info import WEIGHTS_DTYPE
from ssinghal.precision.storage_error import StorageLoss
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.equivalence import ValueCheck
from ssinghal.remedy.placements import NARROW
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.replicate_padding import REPLICATE, ModelChange, constant_case
from ssinghal.remedy.search import Budget, RejectedStrategy, Remedies, search
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import Impact, LiveSet, TrialResult


@dataclass(frozen=True)
class Unsolved:
    """A case without a search: the call fits, or fails for another reason than memory.

    Attributes:
        case: The call.
        verdict: How it ends.
        result: The run of the call, if it fits.
        changes: Alternatives to a replicate padding, which change the model.
    """

    case: Case
    verdict: Verdict
    result: TrialResult | None = None
    changes: ModelChange | None = None


def solve(
    case: Case,
    pools: DevicePools,
    budget: Budget = Budget(),
    live: LiveSet = (),
    verdict: Verdict | None = None,
    trace_region_bytes: int = 0,
    only: Iterable[Impact] = tuple(Impact),
    measured: bool = False,
) -> RemedyReport | Unsolved:
    """Searches remedies of ``case`` alongside ``live``, and checks what each keeps of the values.

    ``verdict``: how it fails, if known; else it is probed. ``measured``: each remedy runs once more to measure the temporaries
    of TTNN's calls. A case without a TTNN call is not searched, with the reason.
    """
    verdict, usage = (verdict, None) if verdict else _failing(case, pools, live)
    changes = padding_changes(case, pools)
    if verdict.status is not Status.OOM:
        return Unsolved(case, verdict, _fitting(case, verdict, pools, live), changes)
    try:
        board = pools.board_of("", trace_region_bytes)
        problem = Problem.of(case, verdict, board, live, newer_than(pools.ttnn), trace_region_bytes)
    except InvalidCase as error:
        return Unsolved(case, Verdict(Status.INVALID, decided_by=DecidedBy.ARITHMETIC, message=str(error)))
    remedies = search(problem, pools.run, budget, only=only)
    before = _before(problem, usage)
    values: dict[str, ValueCheck] = {}
    storage: dict[str, tuple[StorageLoss, ...]] = {}
    for remedy in remedies.found:
        if remedy.impact in (Impact.CHUNKED, Impact.REARRANGED):
            values[remedy.strategy] = pools.values(remedy.result.trial)
        if remedy.impact is Impact.DTYPE:
            storage[remedy.strategy] = pools.storage(_narrowest(remedy.result.trial.case))
    inside = {remedy.strategy: pools.inside(remedy.result.trial) for remedy in remedies.found} if measured else {}
    return RemedyReport(without_other_values(remedies, values), values, storage, changes, before, inside)


def _narrowest(case: Case) -> DType:
    """Returns the dtype of the call, or a narrower one that its weights or single operands have."""
    own = [operand.dtype for operand in case.placement.operands if operand.dtype in NARROW]
    usual = DType(case.attrs.get(WEIGHTS_DTYPE, case.placement.dtype))
    return min([usual, *filter(None, own)], key=lambda dtype: dtype.tile_bytes)


def without_other_values(remedies: Remedies, values: Mapping[str, ValueCheck]) -> Remedies:
    """Rejects remedies that have other values in torch."""
    other = [r for r in remedies.found if (check := values.get(r.strategy)) and check.equal is False and not check.rounding]
    refused = [RejectedStrategy(r.strategy, r.impact, "it fits, with other values in torch", r.probes) for r in other]
    kept = tuple(r for r in remedies.found if r not in other)
    return replace(remedies, found=kept, refused=(*remedies.refused, *refused))


def _before(problem: Problem, usage: Usage | None) -> dict[BufferType, int]:
    """Returns what the original call would take per bank, with the live set: as TTNN captured it, else its tensors alone."""
    estimated, held = problem.estimate(problem.case), {}
    for kind in (BufferType.L1, BufferType.DRAM):
        own = usage.of_memory(kind) if usage else estimated.peak_bytes_per_bank.get(kind, 0)
        live = sum(r.bytes_per_bank for r in problem.live if r.memory is kind and not r.freed)
        held[kind] = own + live
    return {kind: size for kind, size in held.items() if size}


def _fitting(case: Case, verdict: Verdict, pools: DevicePools, live: LiveSet) -> TrialResult | None:
    return pools.run(Problem.of(case, verdict, pools.board, live).trial()) if verdict.status is Status.FITS else None


def padding_changes(case: Case, pools: DevicePools, release: str = "") -> ModelChange | None:
    """Returns the alternatives to a replicate padding; None for other operators, or without torch."""
    if case.operator not in REPLICATE:
        return None
    values = pools.padding(case)
    if values is None:
        return None
    constant = constant_case(case)
    problem = Problem.of(constant, Verdict(Status.FITS), pools.board_of(release))
    return ModelChange(values, pools.run(pools.on(release, problem.trial())))


def _failing(case: Case, pools: DevicePools, live: LiveSet) -> tuple[Verdict, Usage | None]:
    """Returns the verdict alongside the live set, and the usage of the call alone."""
    record = pools.probe(case)
    if not live or record.status not in (Status.FITS, Status.OOM):
        return record.verdict, record.usage
    problem = Problem.of(case, record.verdict, pools.board, live)
    return pools.run(problem.trial()).verdict, record.usage


def newer_than(version: str) -> tuple[str, ...]:
    """Returns the newer releases that are available, the oldest first."""
    installed = installed_release()
    known = {r.version for r in (*added_releases(), *([installed] if installed else []))}
    return tuple(v for v in sorted(known, key=Version) if Version(v) > Version(version))


def solve_all(
    cases: Iterable[tuple[Case, Verdict | None]],
    pools: DevicePools,
    budget: Budget = Budget(),
    live: LiveSet = (),
    *,
    measured: bool = False,
) -> Iterator[RemedyReport | Unsolved]:
    """Solves cases in parallel, one per worker, and yields the results in the order of the cases. Where the caller stops early,
    running searches end once it closes ``pools``."""
    executor = ThreadPoolExecutor(pools.options.workers, "remedy")
    try:
        futures = [executor.submit(solve, case, pools, budget, live, verdict, measured=measured) for case, verdict in cases]
        for future in futures:
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
