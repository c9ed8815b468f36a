"""Plans and storage errors as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ssinghal.core.estimate import Prediction
from ssinghal.core.json_values import plain
from ssinghal.core.tensors import DType, format_bytes, format_shape
from ssinghal.precision.footprint import PLAN_DTYPES, CallPlan, DTypePlan, Footprint, Role
from ssinghal.precision.model_footprint import ModelPlan, OperatorPlan, PlannedCall
from ssinghal.precision.storage_error import GOOD_PCC, RUINED_SHARE, MeasuredLoss, StorageLoss
from ssinghal.render.tables import aligned

NUMERICS = "numerics not run: the error of storage alone, packed and unpacked on the host; it does not predict a model's"
SHOWN = 20  # failing calls in the text; JSON has all
_BLOCK_FLOATS = PLAN_DTYPES[1:]


def plan_lines(plan: CallPlan | ModelPlan) -> list[str]:
    return _call_lines(plan) if isinstance(plan, CallPlan) else _model_lines(plan)


def plan_json(plan: CallPlan | ModelPlan) -> dict[str, Any]:
    return _call_json(plan) if isinstance(plan, CallPlan) else _model_json(plan)


# One call ----------------------------------------------------------------------------------------------------------------


def _call_lines(plan: CallPlan) -> list[str]:
    case = plan.case
    shapes = " ".join(format_shape(s) for s in case.inputs)
    attrs = " ".join(f"{k}={v}" for k, v in case.attrs.items())
    lines = [" ".join(x for x in (case.name, shapes, attrs) if x) + f"  on {plan.board.name}, by arithmetic"]
    rows = [["requested", "tensor", "shape", "dtype", "layout", "memory", "logical B", "allocated B", "B per bank"]]
    for dtype, planned in plan.plans.items():
        for tensor in planned.tensors:
            a = tensor.allocation
            is_view = tensor.role is Role.VIEW
            rows.append(
                [
                    str(dtype),
                    a.label,
                    format_shape(a.spec.shape),
                    str(a.spec.dtype),
                    str(a.spec.layout),
                    "its operand's" if is_view else str(a.spec.memory),
                    f"{a.logical_bytes:,}",
                    "" if is_view else f"{a.allocated_bytes:,}",
                    "" if is_view else f"{a.bytes_per_bank:,}",
                ]
            )
    lines += aligned(rows)
    base = plan.plans[DType.BFLOAT16].allocated_bytes
    for dtype, planned in plan.plans.items():
        saved = "" if dtype is DType.BFLOAT16 else f", {_percent(base - planned.allocated_bytes, base)} less"
        size = f"{format_bytes(planned.allocated_bytes)} in all{saved}"
        lines.append(f"{dtype}: {size}; {_verdict(planned)}")
        if planned.unsaved:
            lines.append(f"  {f'stays {planned.dtype}: ' if planned.kept else ''}{planned.unsaved}")
    if any(operand.dtype for operand in case.placement.operands):
        lines.append("operands with a dtype of their own keep it")
    if plan.exceeds:
        lines.append(_fix(plan))
    return lines


def _verdict(planned: DTypePlan) -> str:
    where = f" ({planned.estimate.resource})" if planned.estimate.resource else ""
    return f"{planned.estimate.verdict}{where}: {planned.estimate.reason}"


def _fix(plan: CallPlan) -> str:
    """Returns the dtypes in which a call fits that exceeds in bfloat16."""
    dtypes = [f"{p.wanted}{_if_unknown(p)}" for p in plan.fixed_by]
    return f"made to fit by {' or '.join(dtypes)}" if dtypes else "no dtype makes it fit"


def _if_unknown(plan: DTypePlan) -> str:
    return " (its tensors; the rest is known only from a probe)" if plan.estimate.verdict is Prediction.UNKNOWN else ""


def _call_json(plan: CallPlan) -> dict[str, Any]:
    return {
        **plan.case.identity(),
        "board": plan.board.name,
        "plans": {str(dtype): _plan_json(planned) for dtype, planned in plan.plans.items()},
        "made_to_fit_by": [str(planned.wanted) for planned in plan.fixed_by],
    }


def _plan_json(planned: DTypePlan) -> dict[str, Any]:
    return {
        "dtype": str(planned.dtype),
        "not_saved": planned.unsaved,
        "allocated_bytes": planned.allocated_bytes,
        "tensors": [{"role": str(t.role), **plain(t.allocation.stored())} for t in planned.tensors],
        "estimate": {k: v for k, v in planned.estimate.to_json().items() if k != "allocations"},
    }


# A model -----------------------------------------------------------------------------------------------------------------


def _model_lines(plan: ModelPlan) -> list[str]:
    lines = [f"{plan.title}, the calls of {plan.catalog}  on {plan.board.name}, by arithmetic", *_totals(plan), ""]
    lines += [
        *aligned(_operator_rows(plan)),
        "weights are counted for each call that takes them, results for each that returns them: what a dtype saves, not what is"
        " live at once",
        f"weights: {plan.weight_values:,} values; the model has {plan.params:,} parameters",
    ]
    if plan.unmapped:
        lines.append(f"not counted, calls without a case: {sum(plan.unmapped.values()):,}")
        lines += [f"  {count:,}: {reason}" for reason, count in sorted(plan.unmapped.items(), key=lambda x: -x[1])]
    for dtype in PLAN_DTYPES:
        lines += _unsaved_lines(plan, dtype)
    return lines + _failing_lines(plan)


def _totals(plan: ModelPlan) -> list[str]:
    planned = [plan.footprint(dtype) for dtype in PLAN_DTYPES]
    rows = [["", *map(str, PLAN_DTYPES)]]

    def row(name: str, sizes: Sequence[int]) -> None:
        rows.append([name, *(format_bytes(size) for size in sizes)])

    row("weights", [f.weight_bytes for f in planned])
    row("  values alone", [f.weight_logical_bytes for f in planned])
    row("results", [f.activation_bytes for f in planned])
    row("  values alone", [f.activation_logical_bytes for f in planned])
    if planned[0].batch_norm_bytes:
        row("batch norms, unless folded", [f.batch_norm_bytes for f in planned])
    row("total", [f.total_bytes for f in planned])
    rows.append(
        [
            "  less than bfloat16",
            "",
            *(_percent(planned[0].total_bytes - f.total_bytes, planned[0].total_bytes) for f in planned[1:]),
        ]
    )
    rows.append(["cases that exceed", *(str(plan.exceeding(dtype)) for dtype in PLAN_DTYPES)])
    lines = aligned(rows)
    if plan.given != planned[0]:
        lines.append(f"as captured, with its float32: {format_bytes(plan.given.total_bytes)}")
    return lines


def _operator_rows(plan: ModelPlan) -> list[list[str]]:
    header = ["operator", "calls", "weights B", "results B", *(f"{d} saves B" for d in _BLOCK_FLOATS)]
    shown = [d for d in PLAN_DTYPES if plan.exceeding(d)]
    rows = [[*header, *(f"exceed in {d}" for d in shown)]]
    for o in plan.operators:
        base = o.footprints[DType.BFLOAT16]
        saved = [f"{o.saved_bytes(d):,}" for d in _BLOCK_FLOATS]
        exceeding = [str(o.exceeding(d) or "") for d in shown]
        weights = base.weight_bytes + base.batch_norm_bytes
        rows.append([o.operator, f"{o.calls:,}", f"{weights:,}", f"{base.activation_bytes:,}", *saved, *exceeding])
    return rows


def _unsaved_lines(plan: ModelPlan, dtype: DType) -> list[str]:
    reasons = [
        f"  {o.operator}, {cases} of {len(o.lines)} cases: {reason}"
        for o in plan.operators
        for reason, cases in o.unsaved(dtype).most_common()
    ]
    return [f"not {dtype}, so not counted as saved:", *reasons] if reasons else []


def _failing_lines(plan: ModelPlan) -> list[str]:
    failing = plan.failing
    lines = [f"cases that exceed in bfloat16: {len(failing)}"] if failing else []
    for line in failing[:SHOWN]:
        planned = line.plan.plans[DType.BFLOAT16]
        lines.append(f"  {line.plan.case.name} {line.plan.case.id} ({line.source.where}): {planned.estimate.reason}")
        lines.append(f"    {_fix(line.plan)}")
    return [*lines, f"  and {len(failing) - SHOWN} more: --json has all"] if len(failing) > SHOWN else lines


def _model_json(plan: ModelPlan) -> dict[str, Any]:
    return {
        "catalog": plan.catalog,
        "title": plan.title,
        "board": plan.board.name,
        "params": plan.params,
        "weight_values": plan.weight_values,
        "as_captured": _footprint_json(plan.given),
        "plans": {str(d): {**_footprint_json(plan.footprint(d)), "exceeding_cases": plan.exceeding(d)} for d in PLAN_DTYPES},
        "operators": [_operator_json(o) for o in plan.operators],
        "failing": [_failing_json(line) for line in plan.failing],
        "not_counted_calls": dict(plan.unmapped),
    }


def _operator_json(operator: OperatorPlan) -> dict[str, Any]:
    return {
        "operator": operator.operator,
        "calls": operator.calls,
        "cases": len(operator.lines),
        "plans": {
            str(d): {
                **_footprint_json(operator.footprints[d]),
                "saved_bytes": operator.saved_bytes(d),
                "exceeding_cases": operator.exceeding(d),
                "not_saved": dict(operator.unsaved(d)),
            }
            for d in PLAN_DTYPES
        },
    }


def _failing_json(line: PlannedCall) -> dict[str, Any]:
    return {
        "calls": line.calls,
        "at": {m.path: m.calls for m in line.source.modules},
        "other_modules": line.source.other_modules,
        "other_calls": line.source.other_calls,
        **_call_json(line.plan),
    }


def _footprint_json(planned: Footprint) -> dict[str, int]:
    return {**asdict(planned), "total_bytes": planned.total_bytes}


# Storage -----------------------------------------------------------------------------------------------------------------


def storage_lines(measured: MeasuredLoss) -> list[str]:
    head = ["data", "dtype", "PCC", "median relative", "95 % below", "flushed to zero", "largest error", "of", ""]
    rows = [head, *(_loss_row(loss) for loss in measured.losses)]
    lines = [f"storage error, by the host packing of ttnn {measured.ttnn}", *aligned(rows)]
    lines += [f"{loss.data} in {loss.dtype}: {loss.overflowed:,} values came back infinite" for loss in _overflowed(measured)]
    lines += [
        f"{loss.data}: {loss.not_finite:,} values are not finite, and excluded"
        for loss in measured.losses
        if loss.not_finite and loss.dtype is PLAN_DTYPES[0]
    ]
    lines += [f"not measured: {skipped}" for skipped in measured.skipped]
    hidden = sum(loss.ruin_hidden for loss in measured.losses)
    if hidden:
        lines.append(
            f"*: PCC above {GOOD_PCC:g}, yet more than {RUINED_SHARE:.0%} flushed to zero: {hidden} of {len(rows) - 1} rows"
        )
    return [*lines, NUMERICS]


def storage_summary(measured: MeasuredLoss) -> list[str]:
    """Returns the range of the error over all samples, in a line for each block float."""
    lines = [f"storage error of sample values, by the host packing of ttnn {measured.ttnn} (all of it: ssinghal precision):"]
    for dtype in _BLOCK_FLOATS:
        losses = [loss for loss in measured.losses if loss.dtype is dtype]
        medians = [loss.median_relative for loss in losses if loss.median_relative is not None]
        flushed = [loss.flushed for loss in losses]
        lines.append(
            f"  {dtype}: median relative error {min(medians):.2%} to {max(medians):.2%},"
            f" {min(flushed):.2%} to {max(flushed):.2%} of the values become zero"
        )
    return [*lines, NUMERICS]


def _overflowed(measured: MeasuredLoss) -> Iterable[StorageLoss]:
    return (loss for loss in measured.losses if loss.overflowed)


def _loss_row(loss: StorageLoss) -> list[str]:
    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.2%}"

    return [
        f"{loss.data} {format_shape(loss.shape)}",
        str(loss.dtype),
        "" if loss.pcc is None else f"{loss.pcc:.6f}",
        share(loss.median_relative),
        share(loss.p95_relative),
        share(loss.flushed),
        f"{loss.largest_error:.3g}",
        f"{loss.largest_value:.3g}",
        "*" if loss.ruin_hidden else "",
    ]


def storage_json(measured: MeasuredLoss) -> dict[str, Any]:
    losses = [{**asdict(loss), "dtype": str(loss.dtype), "ruin_hidden": loss.ruin_hidden} for loss in measured.losses]
    return {"numerics": NUMERICS, "ttnn": measured.ttnn, "losses": losses, "not_measured": list(measured.skipped)}


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0 %"
