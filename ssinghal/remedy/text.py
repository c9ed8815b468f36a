"""Remedies as text, as JSON, and as runnable scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.case import call_text
from ssinghal.core.tensors import ONE_CHIP, BufferType, format_bytes, format_shape
from ssinghal.core.verdict import sentence
from ssinghal.operators.binding import bind
from ssinghal.precision.storage_error import StorageLoss
from ssinghal.remedy.equivalence import ValueCheck
from ssinghal.remedy.replicate_padding import ModelChange
from ssinghal.remedy.search import Remedies, Remedy
from ssinghal.remedy.trial import Impact, TrialResult


@dataclass(frozen=True)
class RemedyReport:
    """The result of a search for remedies, and what was measured of each.

    Attributes:
        remedies: Up to three remedies (``found``), and the reasons against the other strategies (``refused``).
        values: By strategy, whether a rewrite keeps the values.
        storage: By strategy, what is lost by storing values in another dtype.
        changes: Alternatives to a replicate padding, which change the model.
        before: Bytes per bank that the original call would take, by kind of memory.
        inside: By strategy, peaks in bytes per bank with the temporaries of TTNN's calls, where measured.
    """

    remedies: Remedies
    values: Mapping[str, ValueCheck] = field(default_factory=dict)
    storage: Mapping[str, Sequence[StorageLoss]] = field(default_factory=dict)
    changes: ModelChange | None = None
    before: Mapping[BufferType, int] = field(default_factory=dict)
    inside: Mapping[str, Mapping[BufferType, int]] = field(default_factory=dict)


def lines(report: RemedyReport) -> list[str]:
    """Returns the failure, up to three remedies with their code, then the strategies that do not help, with the reasons."""
    problem = report.remedies.problem
    mesh = problem.board.mesh
    where = problem.board.name + ("" if mesh == ONE_CHIP else ", of each of {}x{} chips".format(*mesh))
    out = [f"{call_text(problem.case)}  on {where}", f"fails: {sentence(problem.verdict)}"]
    if not report.remedies.found:
        out += ["", "no strategy makes it fit"]
    for number, remedy in enumerate(report.remedies.found, 1):
        out += ["", f"{number}. {remedy.impact}: {remedy.strategy}" + (f" ({remedy.note})" if remedy.note else "")]
        out += [f"   {line}" for line in (*facts(report, remedy), *shown_code(remedy.result))]
    out += ["", *_refusals(report.remedies), *(report.changes.lines() if report.changes else []), *_summary(report.remedies)]
    return out


def shown_code(result: TrialResult) -> list[str]:
    """Returns the code, with one line for the other buffers: scripts contain all of it."""
    count = result.lines_of_live
    calls = "1 call that places" if count == 1 else f"{count:,} calls that place"
    live = [f"# {calls} the other buffers: --script writes them"] if count else []
    return [*live, *result.code[count:]]


def facts(report: RemedyReport, remedy: Remedy) -> list[str]:
    """Returns what was measured of a remedy: where it ran, peaks before and after, moved bytes, calls, values."""
    result = remedy.result
    probes = _probes(remedy.probes)
    calls = "1 call" if result.calls == 1 else f"{result.calls} calls"
    return [
        f"ran on {result.device_mode} {result.board}, ttnn {result.ttnn} ({probes}); the result is {_results(result)}",
        f"{_peaks(report, remedy)}; {calls}, {format_bytes(result.moved_bytes)} moved",
        *_values(report, remedy),
    ]


def _results(result: TrialResult) -> str:
    tensors = [f"{format_shape(r.shape)} {r.dtype} {r.layout} in {r.memory}" for r in result.results]
    return ", ".join(tensors) if len(tensors) <= 3 else f"{len(tensors)} tensors, the first {tensors[0]}"


def peak_bytes(report: RemedyReport, remedy: Remedy) -> Mapping[BufferType, int]:
    """Returns the peaks per bank, with the temporaries of TTNN's calls where measured."""
    inside, after = report.inside.get(remedy.strategy, {}), remedy.result.peak_bytes
    return {kind: max(inside.get(kind, 0), after.get(kind, 0)) for kind in (BufferType.L1, BufferType.DRAM)}


def _peaks(report: RemedyReport, remedy: Remedy) -> str:
    """Returns the peaks, next to those of the original call where the banks are the same."""
    here = remedy.result.board == report.remedies.problem.board.name
    peak, before = peak_bytes(report, remedy), report.before if here else {}
    parts = []
    for kind in (BufferType.L1, BufferType.DRAM):
        if peak[kind] or before.get(kind):
            was = f" (before: {before.get(kind, 0):,} B)" if here else ""
            parts.append(f"{str(kind).upper()} {peak[kind]:,} B{was}")
    measured = "" if report.inside.get(remedy.strategy) else " after its calls, their temporaries unknown"
    return f"peak per bank{measured}: {', '.join(parts)}"


def _values(report: RemedyReport, remedy: Remedy) -> list[str]:
    check = report.values.get(remedy.strategy)
    if remedy.impact is Impact.DTYPE:
        return [
            "values: rounded to the narrower dtype",
            *(f"  stored, {storage_text(loss)}" for loss in report.storage.get(remedy.strategy, ())),
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
    return [f"values: DIFFERENT in torch{where}: {check.differing:.1%} of the elements, by up to {check.largest:.3g}"]


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
    return ["what does not help:", *(f"- {r.impact}, {r.strategy}: {r.reason}" for r in remedies.refused)]


def _probes(count: int) -> str:
    return f"{count:,} probe{'s' * (count != 1)}"


def _summary(remedies: Remedies) -> list[str]:
    over = "; the budget was spent" if remedies.spent else ""
    return [f"{_probes(remedies.probes)}, {remedies.seconds:.2f} s of search on the host{over}"]


def to_json(report: RemedyReport) -> dict[str, Any]:
    problem = report.remedies.problem
    return {
        "case": problem.case.identity(),
        "key": problem.case.key,
        "board": problem.board.name,
        "resource": problem.verdict.resource.value if problem.verdict.resource else None,
        "fails": sentence(problem.verdict),
        "live": [{"memory": str(r.memory), "bytes_per_bank": r.bytes_per_bank, "freed": r.freed} for r in problem.live],
        "bytes_per_bank_before": {str(k): v for k, v in report.before.items()},
        "remedies": [_remedy_json(report, remedy) for remedy in report.remedies.found],
        "refused": [
            {"contract": str(r.impact), "lever": r.strategy, "reason": r.reason, "probes": r.probes}
            for r in report.remedies.refused
        ],
        "model_changes": asdict(report.changes.values) if report.changes else None,
        "probes": report.remedies.probes,
        "seconds": round(report.remedies.seconds, 4),
        "budget_spent": report.remedies.spent,
    }


def _remedy_json(report: RemedyReport, remedy: Remedy) -> dict[str, Any]:
    result, check = remedy.result, report.values.get(remedy.strategy)
    return {
        "contract": str(remedy.impact),
        "lever": remedy.strategy,
        "note": remedy.note,
        "device_mode": result.device_mode,
        "board": result.board,
        "ttnn": result.ttnn,
        "results": [asdict(r) for r in result.results],
        "peak_bytes_per_bank": {str(k): v for k, v in peak_bytes(report, remedy).items()},
        "peak_includes_inside": bool(report.inside.get(remedy.strategy)),
        "moved_bytes": result.moved_bytes,
        "calls": result.calls,
        "probes": remedy.probes,
        "values": asdict(check) if check else None,
        "storage": [_storage_json(loss) for loss in report.storage.get(remedy.strategy, ())],
        "code": list(result.code),
    }


def script(result: TrialResult, about: Iterable[str]) -> str:
    """Returns a program that makes the tried calls on the device that opens: a card, or a virtual board in ``ssinghal
    exec``."""
    small, trace = result.trial.case.placement.l1_small_bytes or 0, result.trial.trace_region_bytes
    region = f", trace_region_size={trace}" if trace else ""
    board = f" --board {result.board}" if result.board != DEFAULT_BOARD else ""
    run = f"tried with: ssinghal exec{board} --ttnn {result.ttnn} python THIS_FILE"
    return "\n".join(
        [
            *(f"# {line}" for line in (*about, run)),
            "import ttnn",
            "",
            *_opened(result, f"l1_small_size={small}{region}"),
            *result.code,
            f"ttnn.close_{'mesh_' if _needs_mesh(result) else ''}device(device)",
            "",
        ]
    )


def _needs_mesh(result: TrialResult) -> bool:
    """Whether the chips exchange values; of other calls each chip of a mesh makes what one alone does."""
    return bind(result.trial.case).is_distributed


def _opened(result: TrialResult, regions: str) -> list[str]:
    """Returns the lines that open the device."""
    if not _needs_mesh(result):
        return [f"device = ttnn.open_device(device_id=0, {regions})"]
    rows, columns = load_board(result.board).mesh
    fabric = bind(result.trial.case).fabric
    connect = [f"ttnn.set_fabric_config(ttnn.FabricConfig.{fabric})"] if fabric else []
    return [*connect, f"device = ttnn.open_mesh_device(ttnn.MeshShape({rows}, {columns}), {regions})"]
