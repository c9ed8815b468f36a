"""Makes the data of the page's script: the steps of plans as columns, each text once and referred to by its number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ssinghal.core.verdict import Status, sentence
from ssinghal.plan.placed_text import results_text, settings_and_moves
from ssinghal.plan.result import CallFailure, PlanResult
from ssinghal.render.html import css_class


def script_data(plans: Sequence[PlanResult]) -> dict[str, Any]:
    """Returns what the script reads."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    columns = [_plan(plan, number) for plan in plans]
    tones = {status.value: css_class((status.value, None)) for status in Status}
    return {"texts": list(texts), "tones": tones, "plans": columns}


def _plan(plan: PlanResult, number: Callable[[str], int]) -> dict[str, Any]:
    placed = _placed(plan)
    return {
        "weights": plan.peak.weights_bytes,
        "first": plan.failure.step if plan.failure is not None else None,
        "start": plan.failure.step if plan.failure is not None else max(plan.peak_step, 0),
        "bank": plan.l1_bank_bytes,
        "said": {failure.step: sentence(failure.verdict) for failure in _failures(plan)},
        "steps": {
            "number": [use.number for use in plan.steps],
            "operator": [number(use.operator) for use in plan.steps],
            "at": [number(use.at) for use in plan.steps],
            "status": [number(use.status.value) for use in plan.steps],
            "dram": [use.dram_bytes for use in plan.steps],
            "within": [use.dram_peak_bytes for use in plan.steps],
            "cache": [use.cache_bytes for use in plan.steps],
            "l1": [use.l1_peak_bytes for use in plan.steps],
            "small": [use.l1_small_bytes for use in plan.steps],
            "l1After": [use.l1_bytes for use in plan.steps],
            "l1Total": [use.l1_total_peak_bytes for use in plan.steps],
            "programs": [use.program_bytes for use in plan.steps],
            "placed": [number(placed.get(use.number, "")) for use in plan.steps],
        },
    }


def _placed(plan: PlanResult) -> Mapping[int, str]:
    """Returns, by step, where its results are and how it is called."""
    steps = plan.placement.steps if plan.placement is not None else ()
    return {
        step.number: "; ".join(filter(None, [f"results in {results_text(step.results)}", settings_and_moves(step)]))
        for step in steps
    }


def _failures(plan: PlanResult) -> Iterable[CallFailure]:
    return (plan.failure, *plan.later) if plan.failure is not None else plan.later
