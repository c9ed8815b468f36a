"""Plans in words: the verdict, the split of the peak, what lived, and the failure with its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssinghal.core.record import Status, sentence
from ssinghal.core.tensors import format_bytes, format_shape
from ssinghal.plan.liveness import Arithmetic, SizeRule
from ssinghal.plan.planner import Plan
from ssinghal.plan.policy import Lifetime
from ssinghal.plan.result import CallFailure, LiveValue, PlanResult, Split
from ssinghal.render.tables import aligned

SHOWN = 5  # of the largest live values


def heading(result: PlanResult) -> str:
    inputs = ", ".join(map(format_shape, result.input_shapes))
    return f"{result.model} {inputs}  on {result.device_mode} {result.board}, ttnn {result.ttnn}, policy {result.policy_name}"


def lines(plan: Plan) -> list[str]:
    """One model on one board under one policy."""
    result = plan.result
    told = [heading(result), verdict_line(result)]
    if result.peak_bytes:
        told += _peak(result)
    if result.failure is not None:
        told += _failure(result.failure, result.dram_banks)
    if result.later:
        told.append(f"{len(result.later)} more calls failed after the first, beside stand-ins: no evidence by themselves")
    told += _remedies(plan)
    told += _stand_ins(result)
    told += [f"note: {note}" for note in result.notes]
    told.append(
        f"checked after {result.checked:,} of {result.total_steps + 1:,} moments: formula and allocator differ by 0 B;"
        f" steps {result.steps_sha256[:12]}"
    )
    told.append("numerics not run: a virtual device gives memory verdicts only")
    return told


def verdict_line(result: PlanResult) -> str:
    if result.status is Status.FITS:
        return f"FITS: peak {format_bytes(result.peak_bytes)} per DRAM bank, {100 * result.peak_share:.1f} % of the board"
    if result.failure is not None:
        failure = result.failure
        where = f"step {failure.step} {failure.operator} in {failure.at}" if failure.step >= 0 else "before the first step"
        return f"{result.status.value.upper()} at {where}: {sentence(failure.verdict)}"
    return f"{result.status.value.upper()}: {result.message}"


def _peak(result: PlanResult) -> list[str]:
    use, split = result.where, result.peak
    at = f"step {use.number} {use.operator} in {use.at}" if use is not None else "weights and inputs"
    before = "" if result.status is Status.FITS else "before that, "
    told = [f"{before}peak at {at}: {_split(split)}"]
    told.append(
        f"L1 tensors {result.l1_peak_bytes:,} of {result.l1_bank_bytes:,} B per core;"
        f" L1_SMALL {result.l1_small_peak_bytes:,} of {result.l1_small_size:,} B"
    )
    return [*told, *_alive(result.alive)] if result.failure is None else told


def _split(split: Split) -> str:
    return (
        f"weights {split.weights_bytes:,}, activations {split.activations_bytes:,}, program cache"
        f" {split.program_cache_bytes:,}, within calls {split.temporaries_bytes:,} B per bank; padding"
        f" {split.padding_bytes:,} B of it"
    )


def _alive(alive: Sequence[LiveValue]) -> list[str]:
    rows = [["largest live values", "torch's shape", "on the device", "layout", "B per bank"]]
    for value in alive[:SHOWN]:
        name = value.name or f"value {value.value}"
        rows.append([name, format_shape(value.shape), format_shape(value.placed), value.layout, f"{value.bytes_per_bank:,}"])
    return aligned(rows) if len(rows) > 1 else []


def _failure(failure: CallFailure, banks: int) -> list[str]:
    shapes = " ".join(map(format_shape, failure.operands))
    told = [f"call under way: {failure.doing}; operands {shapes or 'none'}"]
    verdict = failure.verdict
    if verdict.shortfall_bytes is not None and verdict.status is Status.OOM:
        total = f", {format_bytes(verdict.shortfall_bytes * banks)} over {banks} banks" if verdict.banks == banks else ""
        largest = f"; largest free block {verdict.largest_free_bytes:,} B" if verdict.largest_free_bytes is not None else ""
        told.append(
            f"short by {format_bytes(verdict.shortfall_bytes)} per {'bank' if verdict.banks else 'core'}{total}{largest}"
        )
    return [*told, f"living then: {_split(failure.split)}", *_alive(failure.alive)]


def _remedies(plan: Plan) -> list[str]:
    if plan.remedy is not None:
        found = plan.remedy
        extra = [name for name in found.policy["rewrites"] if name not in plan.result.policy["rewrites"]]
        share = f"{100 * found.peak_share:.1f} % of the board"
        told = [f"FITS with {' + '.join(extra)}: peak {format_bytes(found.peak_bytes)} per DRAM bank, {share}"]
        return [*told, *(_not(run) for run in plan.tried[:-1])]
    if plan.tried:
        return ["no rewrite makes it fit:", *(_not(run) for run in plan.tried)]
    return []


def _not(run: PlanResult) -> str:
    return f"  {' + '.join(run.policy['rewrites'])}: {verdict_line(run)}"


def _stand_ins(result: PlanResult) -> list[str]:
    if not result.stand_ins:
        return []
    share = f"{100 * result.stand_in_share:.2f} % of the bytes that calls make"
    told = [f"stand-ins for {len(result.stand_ins)} calls, {share}:"]
    seen = dict.fromkeys((s.overload, s.reason) for s in result.stand_ins)
    return told + [f"  {overload}: {reason}" for overload, reason in seen]


def table(plans: Iterable[Plan]) -> list[str]:
    """Boards and policies side by side."""
    rows = [["board, policy", "verdict", "peak B per bank", "share", "weights B", "activations B", "cache B", "L1_SMALL B"]]
    for plan in plans:
        for result in (plan.result, *([plan.remedy] if plan.remedy else [])):
            split = result.peak
            rows.append(
                [
                    f"{result.board}, {result.policy_name}",
                    result.status.value,
                    f"{result.peak_bytes:,}",
                    f"{100 * result.peak_share:.1f} %",
                    f"{split.weights_bytes:,}",
                    f"{split.activations_bytes:,}",
                    f"{split.program_cache_bytes:,}",
                    f"{result.l1_small_peak_bytes:,}",
                ]
            )
    return aligned(rows)


def arithmetic_lines(found: Iterable[Arithmetic]) -> list[str]:
    """Tier 1, all boards at once."""
    rows = [["by arithmetic alone", "least that must live", "share", "as port lays it", "share", "outlook"]]
    for one in found:
        peak = one.peak(Lifetime.LAST_USE, SizeRule.CHANNELS_LAST)
        rows.append(
            [
                one.board,
                f"{one.needed.total_bytes:,} B",
                f"{100 * one.share(one.needed):.1f} %",
                f"{peak.moment.total_bytes:,} B",
                f"{100 * one.share(peak.moment):.1f} %",
                one.outlook.value,
            ]
        )
    return aligned(rows)
