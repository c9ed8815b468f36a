"""Formats plans as text: the verdict, the split of the peak, live values, and the failure with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssinghal.core.nouns import counted
from ssinghal.core.tensors import format_bytes, format_shape
from ssinghal.core.verdict import Status, sentence
from ssinghal.plan.liveness import Arithmetic, SizeRule
from ssinghal.plan.placed_text import placement_lines, placements_table, wrapped
from ssinghal.plan.planner import Plan
from ssinghal.plan.policy import Lifetime
from ssinghal.plan.result import CallFailure, LiveValue, PlanResult, Split
from ssinghal.render.tables import aligned

SHOWN = 5  # largest live values
LEGEND = (
    "all banks together: two lower bounds, then an estimate; the run decides. Columns and lines: docs/plan.md, Read the output"
)


def heading(result: PlanResult) -> str:
    """Formats the model, its inputs, and where it ran."""
    inputs = ", ".join(map(format_shape, result.input_shapes))
    return f"{result.model} {inputs}  on {result.device_mode} {result.board}, ttnn {result.ttnn}, policy {result.policy_name}"


def lines(plan: Plan) -> list[str]:
    """Formats the plan of one model on one board under one policy."""
    result = plan.result
    out = [heading(result), *wrapped(verdict_line(result))] if result.is_unplaced else [heading(result), verdict_line(result)]
    if result.peak_bytes:
        out += _peak(result)
    if result.failure is not None:
        out += _failure(result.failure, result.dram_banks)
    if result.placement is not None:
        out += placement_lines(result.placement)
    if result.later:
        out.append(f"{len(result.later)} more calls failed after the first, with stand-ins allocated: they are no evidence")
    out += _remedies(plan)
    out += _stand_ins(result)
    out += [f"note: {note}" for note in result.notes]
    if not result.is_unplaced:
        out.append(
            f"checked {result.checked:,} of {result.total_steps + 1:,} times: computed and allocated bytes differ by 0 B;"
            f" steps {result.steps_sha256[:12]}"
        )
    out.append("numerics not run: a virtual device gives memory verdicts only")
    return out


def verdict_line(result: PlanResult) -> str:
    """Formats the verdict in one line."""
    if result.is_unplaced:
        return f"NO PLACEMENT: {result.message}"
    if result.status is Status.FITS:
        return f"FITS: peak {format_bytes(result.peak_bytes)} per DRAM bank, {100 * result.peak_share:.1f} % of the board"
    if result.failure is not None:
        return f"{result.status.value.upper()} {result.failure.where}: {sentence(result.failure.verdict)}"
    return f"{result.status.value.upper()}: {result.message}"


def _peak(result: PlanResult) -> list[str]:
    use, split = result.where, result.peak
    at = f"step {use.number} {use.operator} in {use.at}" if use is not None else "weights and inputs"
    before = "" if result.status is Status.FITS else "before that, "
    out = [
        f"{before}peak at {at}: {_split(split)}",
        f"L1 tensors {result.l1_peak_bytes:,} of {result.l1_bank_bytes:,} B per core;"
        f" L1_SMALL {result.l1_small_peak_bytes:,} of {result.l1_small_size:,} B",
    ]
    return [*out, *_alive(result.alive)] if result.failure is None else out


def _split(split: Split) -> str:
    return (
        f"weights {split.weights_bytes:,}, activations {split.activations_bytes:,}, program cache"
        f" {split.program_cache_bytes:,}, within calls {split.temporaries_bytes:,} B per bank; padding"
        f" {split.padding_bytes:,} B of it"
    )


def _alive(alive: Sequence[LiveValue]) -> list[str]:
    rows = [["largest live values", "made by", "torch's shape", "on the device", "layout", "B per bank"]]
    for value in alive[:SHOWN]:
        name = value.name or f"value {value.value}"
        shapes = format_shape(value.shape), format_shape(value.placed)
        rows.append([name, value.made_by, *shapes, value.layout, f"{value.bytes_per_bank:,}"])
    return aligned(rows) if len(rows) > 1 else []


def _failure(failure: CallFailure, banks: int) -> list[str]:
    shapes = " ".join(map(format_shape, failure.operands)) or "none"
    call = f"call under way: {failure.doing}; operands {shapes}"
    out = [call if failure.step >= 0 else f"{failure.doing}: {failure.at} {shapes}"]
    verdict = failure.verdict
    if verdict.shortfall_bytes is not None and verdict.status is Status.OOM:
        total = f", {format_bytes(verdict.shortfall_bytes * banks)} over {banks} banks" if verdict.banks == banks else ""
        largest = f"; largest free block {verdict.largest_free_bytes:,} B" if verdict.largest_free_bytes is not None else ""
        unit = "bank" if verdict.banks else "core"
        out.append(f"short by {format_bytes(verdict.shortfall_bytes)} per {unit}{total}{largest}")
    return [*out, f"live then: {_split(failure.split)}", *_alive(failure.alive)]


def _remedies(plan: Plan) -> list[str]:
    remedy = plan.remedy
    if remedy is not None:
        extra = [name for name in remedy.policy["rewrites"] if name not in plan.result.policy["rewrites"]]
        share = f"{100 * remedy.peak_share:.1f} % of the board"
        fits = f"FITS with {' + '.join(extra)}: peak {format_bytes(remedy.peak_bytes)} per DRAM bank, {share}"
        return [fits, *map(_rewrites_line, plan.tried[:-1])]
    return ["no rewrite makes it fit:", *map(_rewrites_line, plan.tried)] if plan.tried else []


def _rewrites_line(run: PlanResult) -> str:
    return f"  {' + '.join(run.policy['rewrites'])}: {verdict_line(run)}"


def _stand_ins(result: PlanResult) -> list[str]:
    if not result.stand_ins:
        return []
    share = f"{100 * result.stand_in_share:.2f} % of the bytes that calls produce"
    reasons = dict.fromkeys((s.overload, s.reason) for s in result.stand_ins)
    header = f"stand-ins for {counted(len(result.stand_ins), 'call')}, {share}:"
    return [header, *(f"  {overload}: {reason}" for overload, reason in reasons)]


def table(plans: Iterable[Plan]) -> list[str]:
    """Formats boards and policies side by side, and below what those in L1 move."""
    results = [result for plan in plans for result in (plan.result, *([plan.remedy] if plan.remedy else []))]
    rows = [["board, policy", "verdict", "peak B per bank", "share", "weights B", "activations B", "cache B", "L1_SMALL B"]]
    for result in results:
        split = result.peak
        figures = [
            f"{result.peak_bytes:,}",
            f"{100 * result.peak_share:.1f} %",
            f"{split.weights_bytes:,}",
            f"{split.activations_bytes:,}",
            f"{split.program_cache_bytes:,}",
            f"{result.l1_small_peak_bytes:,}",
        ]
        verdict = "no placement" if result.is_unplaced else result.status.value
        rows.append([_name(result), verdict, *(["–"] * len(figures) if result.is_unplaced else figures)])
    placed = [(_name(result), result.placement) for result in results if result.placement is not None]
    return aligned(rows) + (["", *placements_table(placed)] if placed else [])


def _name(result: PlanResult) -> str:
    return f"{result.board}, {result.policy_name}"


def arithmetic_lines(bounds: Iterable[Arithmetic]) -> list[str]:
    """Formats the bounds by arithmetic on all boards, and a line on what the columns are."""
    header = ["by arithmetic alone", "with any rewrite", "share", "without rewrites", "share", "as laid out by port", "share"]
    rows = [[*header, "outlook"]]
    for one in bounds:
        peak = one.peak(Lifetime.LAST_USE, SizeRule.CHANNELS_LAST)
        rows.append(
            [
                one.board,
                f"{one.least.total_bytes:,} B",
                f"{100 * one.share(one.least):.1f} %",
                f"{one.needed.total_bytes:,} B",
                f"{100 * one.share(one.needed):.1f} %",
                f"{peak.moment.total_bytes:,} B",
                f"{100 * one.share(peak.moment):.1f} %",
                one.outlook_in_words,
            ]
        )
    return [*aligned(rows), LEGEND]
