"""Edges as text and as JSON. Every verdict shown is that of a run; values judged by arithmetic alone are only counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssinghal.capacity.finder import EdgeResult, ValueRun
from ssinghal.capacity.search import EdgeInterval
from ssinghal.core.case import call_text, operand_text
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.tensors import format_shape
from ssinghal.core.verdict import DecidedBy, Status, sentence
from ssinghal.operators.resizing import subject_of
from ssinghal.render.tables import aligned

MAX_HOLES = 3  # listed one by one


def lines(result: EdgeResult) -> list[str]:
    """Returns the call, the two sides of the edge, then what is known about the values around it."""
    return [
        f"{call_text(result.case)}  on {result.setting}",
        f"{_wanted(result)}: {result.parameter.description}",
        *_sides(result),
        *remarks(result),
        _effort(result),
    ]


def table(results: Sequence[EdgeResult]) -> list[str]:
    """Returns a row for each board on which the same call was searched, then remarks on unexpected results."""
    rows = [["board", "fits", "does not fit", "why"]]
    for result in results:
        fit, fail = result.fit, result.fail
        why = why_not(fail) if fail and not result.untried else "; ".join(_untried(result)) or _beyond(result)
        rows.append([result.setting.board, _value_text(result, fit), _value_text(result, fail), why])
    odd = [f"{result.setting.board}: {remark}" for result in results for remark in remarks(result, odd_alone=True)]
    first = results[0]
    header = [call_text(first.case), f"{_wanted(first)}: {first.parameter.description}"]
    return [*header, *aligned(rows, left=(0, 3)), *odd, *(f"{result.setting}: {_effort(result)}" for result in results)]


def why_not(run: ValueRun) -> str:
    """Returns the reason why a value is not known to fit, starting with the status if that is not out of memory."""
    verdict = run.verdict
    by = "" if verdict.decided_by is DecidedBy.TTNN else f" (decided by {verdict.decided_by})"
    return (sentence(verdict) if verdict.status is Status.OOM else f"{verdict.status}: {sentence(verdict)}") + by


def remarks(result: EdgeResult, *, odd_alone: bool = False) -> list[str]:
    """Returns what is known about values below and beyond the answer; with ``odd_alone``, only what is unexpected."""
    edge, text = result.edge, _holes(result)
    if edge.fit is not None and not odd_alone:
        text += _known(result, edge.fit)
    if edge.contradicted:
        values = ", ".join(_value_text(result, edge.tried[i]) for i in edge.contradicted)
        text.append(f"arithmetic was wrong for {values}: a bug in ssinghal")
    if edge.is_spent:
        is_narrow = edge.is_confirmed or edge.is_open
        skipped = "some extra checks around the edge were skipped" if is_narrow else "the edge may be further on"
        text.append(f"stopped at the limit of runs or time: {skipped}")
    return text


def _holes(result: EdgeResult) -> list[str]:
    """Returns the intervals below the answer that do not fit, and the value up to which everything fits."""
    holes = result.edge.holes
    if not holes:
        return []
    shown = holes if len(holes) <= MAX_HOLES else [*holes[: MAX_HOLES - 1], holes[-1]]
    text = [f"before that, {_interval(result, h)} {_ended(h)}: {why_not(result.edge.tried[h.last_index])}" for h in shown]
    if len(shown) < len(holes):
        text.insert(-1, f"… and {len(holes) - len(shown)} more such intervals")
    safe = [index for index in result.edge.tried if index < holes[0].first_index]
    if safe:
        text.append(f"every value run up to {result.parameter.value_text(result.parameter.values[safe[-1]])} fits")
    return text


def _ended(hole: EdgeInterval[int]) -> str:
    return "gives no memory verdict" if hole.fits is None else "does not fit"


def _known(result: EdgeResult, fit: int) -> list[str]:
    """Counts the values with less and with more demand than the answer that were run or judged."""
    edge, parameter, text = result.edge, result.parameter, []
    less, more = ("larger", "smaller") if parameter.goal.is_smallest else ("smaller", "larger")
    if fit:
        ran, judged = edge.known_between(0, fit - 1)
        fits = ", not all of them fit" if not edge.is_monotone else ", all of them fit" if ran else ""
        certain = f"; {judged:,} that were not run fit by arithmetic" if judged else ""
        text.append(f"{fit:,} {less} values: {ran or 'none'} run{fits}{certain}")
    beyond = [i for i in (*edge.tried, *edge.judged) if i > fit and i not in edge.untried]
    if beyond:
        ran, judged = edge.known_between(fit + 1, max(beyond))
        certain = f"; {judged:,} that were not run are ruled out by arithmetic" if judged else ""
        last = parameter.value_text(parameter.values[max(beyond)])
        text.append(f"{max(beyond) - fit:,} {more} values up to {last}: {ran} run, none of them fits{certain}")
    return text


def _sides(result: EdgeResult) -> list[str]:
    fit, fail, edge = result.fit, result.fail, result.edge
    if fit is None:
        failed = [run for run in edge.tried.values() if run.fits is False]
        nothing = [f"nothing fits, tried {_values_and_reasons(result, failed)}"] if failed else []
        return [*nothing, *_untried(result)]
    # an operator that creates a tensor has no operands
    operands = [operand_text(fit.case, n) for n in range(len(fit.case.inputs))] or [format_shape(subject_of(fit.case))]
    at = "" if result.parameter.goal.is_smallest else f": {' '.join(operands)}"
    text = [f"{_value_text(result, fit)} fits{at}"]
    if fail is not None:
        text.append(f"{_value_text(result, fail)} does not fit: {why_not(fail)}")
    elif not result.untried:
        text.append(_beyond(result))
    return [*text, *_untried(result)]


def _untried(result: EdgeResult) -> list[str]:
    """States which values next to the answer may fit after all, and why that is unknown."""
    if not result.untried:
        return []
    return [f"no memory verdict, may fit: {_values_and_reasons(result, result.untried)}"]


def _values_and_reasons(result: EdgeResult, runs: Sequence[ValueRun]) -> str:
    shown = ", ".join(_value_text(result, run) for run in runs)
    reasons = list(dict.fromkeys(map(why_not, runs)))
    more = f"; and {len(reasons) - 1} other reasons" if len(reasons) > 2 else f"; {reasons[1]}" if len(reasons) == 2 else ""
    return f"{shown}: {reasons[0]}{more}"


def _wanted(result: EdgeResult) -> str:
    goal = result.parameter.goal
    return f"{'smallest' if goal.is_smallest else 'largest'} {goal}"


def _beyond(result: EdgeResult) -> str:
    """Explains why there is no run beyond the answer."""
    if not result.edge.is_open:
        return "nothing beyond it was run"
    return f"no edge up to {result.parameter.value_text(result.parameter.values[-1])}, the last value"


def _value_text(result: EdgeResult, run: ValueRun | None) -> str:
    return "none" if run is None else result.parameter.value_text(run.value)


def _interval(result: EdgeResult, interval: EdgeInterval[int]) -> str:
    first, last = result.parameter.value_text(interval.first), result.parameter.value_text(interval.last)
    return first if first == last else f"{first} to {last} ({interval.runs} run)"


def _effort(result: EdgeResult) -> str:
    reused = len(result.edge.tried) - result.new_runs
    runs = "1 run" if result.new_runs == 1 else f"{result.new_runs} runs"
    earlier = f" and {reused} reused from the journal" if reused else ""
    numerics = "; numerics not run" if result.setting.device_mode is DeviceMode.VIRTUAL else ""
    return f"{runs}{earlier} in {result.seconds:.2f} s{numerics}"


def to_json(result: EdgeResult) -> dict[str, Any]:
    """Returns everything that was run, with the numbers of the verdicts."""
    edge, parameter = result.edge, result.parameter
    return {
        "case": result.case.identity(),
        "key": result.case.key,
        "goal": str(parameter.goal),
        "wanted": "smallest" if parameter.goal.is_smallest else "largest",
        "what": parameter.description,
        **result.setting.to_json(),
        "fit": _run(result, result.fit),
        "fail": _run(result, result.fail),
        "no_verdict": [_run(result, run) for run in result.untried],
        "is_confirmed": edge.is_confirmed,
        "is_open": edge.is_open,
        "is_spent": edge.is_spent,
        "is_monotone_as_run": edge.is_monotone,
        "stretches": [{"first": x.first, "last": x.last, "fits": x.fits, "runs": x.runs} for x in edge.intervals],
        "tried": [_run(result, run) for run in edge.tried.values()],
        "judged_by_arithmetic": len(edge.judged.keys() - edge.tried.keys()),
        "contradicted": [edge.tried[i].value for i in edge.contradicted],
        "runs": result.new_runs,
        "seconds": round(result.seconds, 4),
    }


def _run(result: EdgeResult, run: ValueRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    shortfall = run.verdict.shortfall_bytes
    more = {} if shortfall is None else {"shortfall_bytes": shortfall}
    known = {"known_from_before": True} if run.is_known else {}
    return {
        "value": run.value,
        "shown": _value_text(result, run),
        "case": run.case.identity(),
        **run.verdict.to_json(),
        **more,
        **known,
    }
