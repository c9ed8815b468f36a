"""Remedies in words, as JSON, and as scripts that run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.case import call_text
from ssinghal.core.record import sentence
from ssinghal.core.tensors import BufferType, format_bytes, format_shape
from ssinghal.precision.storage_error import StorageLoss
from ssinghal.remedy.equivalence import ValueCheck
from ssinghal.remedy.replicate_padding import ModelChange
from ssinghal.remedy.search import Remedies, Remedy
from ssinghal.remedy.trial import Impact, TrialResult


@dataclass(frozen=True)
class RemedyReport:
    """The result of a search for remedies, and what was measured of each.

    Attributes:
        remedies: Up to three remedies (``found``), and the reasons against the other levers (``refused``).
        values: By lever, whether a rewrite keeps the values.
        storage: By lever, what is lost by storing values in another dtype.
        changes: What would fit too, but is another model.
        before: Bytes per bank that the original call would take, by kind of memory.
        inside: By lever, peaks in bytes per bank, with what TTNN's calls hold on the way, where measured.
    """

    remedies: Remedies
    values: Mapping[str, ValueCheck] = field(default_factory=dict)
    storage: Mapping[str, Sequence[StorageLoss]] = field(default_factory=dict)
    changes: ModelChange | None = None
    before: Mapping[BufferType, int] = field(default_factory=dict)
    inside: Mapping[str, Mapping[BufferType, int]] = field(default_factory=dict)


def lines(told: RemedyReport) -> list[str]:
    """The failure, up to three remedies with their code, then each lever that does not help and why."""
    problem = told.remedies.problem
    out = [f"{call_text(problem.case)}  on {problem.board.name}", f"fails: {sentence(problem.verdict)}"]
    if not told.remedies.found:
        out += ["", "none of the tried ones fits"]
    for number, remedy in enumerate(told.remedies.found, 1):
        out += ["", f"{number}. {remedy.contract}: {remedy.lever}" + (f" ({remedy.note})" if remedy.note else "")]
        out += [f"   {line}" for line in (*facts(told, remedy), *shown_code(remedy.tried))]
    out += ["", *_refusals(told.remedies), *(told.changes.lines() if told.changes else []), *_summary(told.remedies)]
    return out


def shown_code(tried: TrialResult) -> list[str]:
    """The code, what else lives in one line: a program has it all."""
    count = tried.lines_of_live
    live = [f"# {count} calls that place what else lives: --script writes them"] if count else []
    return [*live, *tried.code[count:]]


def facts(told: RemedyReport, remedy: Remedy) -> list[str]:
    """What was measured of a remedy: where it ran, peaks before and after, bytes moved, calls, values."""
    tried = remedy.tried
    calls = "1 call" if tried.calls == 1 else f"{tried.calls} calls"
    probes = "1 probe" if remedy.probes == 1 else f"{remedy.probes} probes"
    return [
        f"ran on {tried.device_mode} {tried.board}, ttnn {tried.ttnn} ({probes}); the result is {_results(tried)}",
        f"{_peaks(told, remedy)}; {calls}, {format_bytes(tried.moved_bytes)} moved",
        *_values(told, remedy),
    ]


def _results(tried: TrialResult) -> str:
    told = [f"{format_shape(r.shape)} {r.dtype} {r.layout} in {r.memory}" for r in tried.results]
    return ", ".join(told) if len(told) <= 3 else f"{len(told)} tensors, the first {told[0]}"


def peak_bytes(told: RemedyReport, remedy: Remedy) -> Mapping[BufferType, int]:
    """Most per bank, with what is held inside TTNN's calls where that was measured."""
    inside, after = told.inside.get(remedy.lever, {}), remedy.tried.peak_bytes
    return {kind: max(inside.get(kind, 0), after.get(kind, 0)) for kind in (BufferType.L1, BufferType.DRAM)}


def _peaks(told: RemedyReport, remedy: Remedy) -> str:
    """Beside those of the call as it was, where the banks are the same."""
    here = remedy.tried.board == told.remedies.problem.board.name
    peak, before = peak_bytes(told, remedy), told.before if here else {}
    parts = []
    for kind in (BufferType.L1, BufferType.DRAM):
        if peak[kind] or before.get(kind):
            was = f" (as it was: {before.get(kind, 0):,} B)" if here else ""
            parts.append(f"{str(kind).upper()} {peak[kind]:,} B{was}")
    measured = "" if told.inside.get(remedy.lever) else " after its calls, what they hold on the way unknown"
    return f"peak per bank{measured}: {', '.join(parts)}"


def _values(told: RemedyReport, remedy: Remedy) -> list[str]:
    check = told.values.get(remedy.lever)
    if remedy.contract is Impact.DTYPE:
        return [
            "values: other ones, as any narrower dtype gives",
            *(f"  stored, {storage_text(loss)}" for loss in told.storage.get(remedy.lever, ())),
        ]
    if check is None:
        return ["values: the same call on the same operands"]
    if check.equal is None:
        return [f"values: not compared ({check.reason})"]
    where = f" at {' '.join(format_shape(s) for s in check.inputs)}" + (" (reduced)" if check.reduced else "")
    if check.equal:
        return [f"values: equal to the plain call's in torch{where}"]
    if check.rounding:
        return [f"values: equal up to rounding in torch{where}, largest difference {check.largest:.3g}"]
    return [f"values: OTHER ones in torch{where}: {check.differing:.1%} of the elements, by up to {check.largest:.3g}"]


def storage_text(loss: StorageLoss) -> str:
    return (
        f"{loss.data} in {loss.dtype}: PCC {loss.pcc:.5f}, median relative error {loss.median_relative:.2%}, largest"
        f" {loss.largest:.1%} of the largest value, {loss.flushed:.1%} become zero"
    )


def _storage_json(loss: StorageLoss) -> dict[str, Any]:
    return {
        "dtype": loss.dtype.value,
        "data": loss.data,
        "pcc": loss.pcc,
        "median_relative": loss.median_relative,
        "largest": loss.largest,
        "flushed": loss.flushed,
    }


def _refusals(remedies: Remedies) -> list[str]:
    if not remedies.refused:
        return []
    return ["what does not help:", *(f"- {r.contract}, {r.lever}: {r.reason}" for r in remedies.refused)]


def _summary(remedies: Remedies) -> list[str]:
    over = "; the budget was spent" if remedies.spent else ""
    return [f"{remedies.probes} probes, {remedies.seconds:.2f} s of search on the host{over}"]


def to_json(told: RemedyReport) -> dict[str, Any]:
    problem = told.remedies.problem
    return {
        "case": problem.case.identity(),
        "key": problem.case.key,
        "board": problem.board.name,
        "resource": problem.verdict.resource.value if problem.verdict.resource else None,
        "fails": sentence(problem.verdict),
        "live": [{"memory": str(r.memory), "bytes_per_bank": r.bytes_per_bank, "freed": r.freed} for r in problem.live],
        "bytes_per_bank_before": {str(k): v for k, v in told.before.items()},
        "remedies": [_remedy_json(told, remedy) for remedy in told.remedies.found],
        "refused": [
            {"contract": str(r.contract), "lever": r.lever, "reason": r.reason, "probes": r.probes}
            for r in told.remedies.refused
        ],
        "model_changes": asdict(told.changes.values) if told.changes else None,
        "probes": told.remedies.probes,
        "seconds": round(told.remedies.seconds, 4),
        "budget_spent": told.remedies.spent,
    }


def _remedy_json(told: RemedyReport, remedy: Remedy) -> dict[str, Any]:
    tried, check = remedy.tried, told.values.get(remedy.lever)
    return {
        "contract": str(remedy.contract),
        "lever": remedy.lever,
        "note": remedy.note,
        "device_mode": tried.device_mode,
        "board": tried.board,
        "ttnn": tried.ttnn,
        "results": [asdict(r) for r in tried.results],
        "peak_bytes_per_bank": {str(k): v for k, v in peak_bytes(told, remedy).items()},
        "peak_includes_inside": bool(told.inside.get(remedy.lever)),
        "moved_bytes": tried.moved_bytes,
        "calls": tried.calls,
        "probes": remedy.probes,
        "values": asdict(check) if check else None,
        "storage": [_storage_json(loss) for loss in told.storage.get(remedy.lever, ())],
        "code": list(tried.code),
    }


def script(tried: TrialResult, about: Iterable[str]) -> str:
    """A program that makes the tried calls on whatever device opens: a card, or a virtual board under ``ssinghal exec``."""
    small, trace = tried.trial.case.placement.l1_small_bytes or 0, tried.trial.trace_region_bytes
    region = f", trace_region_size={trace}" if trace else ""
    board = f" --board {tried.board}" if tried.board != DEFAULT_BOARD else ""
    run = f"as it was tried: ssinghal exec{board} --ttnn {tried.ttnn} python THIS_FILE"
    return "\n".join(
        [
            *(f"# {line}" for line in (*about, run)),
            "import ttnn",
            "",
            f"device = ttnn.open_device(device_id=0, l1_small_size={small}{region})",
            *tried.code,
            "ttnn.close_device(device)",
            "",
        ]
    )
