"""Edges in words and as JSON. Every verdict told is one of a run; what only arithmetic knows is counted as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ssinghal.capacity.finder import EdgeResult, ValueRun
from ssinghal.capacity.search import EdgeInterval
from ssinghal.core.case import call_text
from ssinghal.core.record import Status, sentence
from ssinghal.core.tensors import TextEnum, format_shape
from ssinghal.operators.resizing import subject_of
from ssinghal.render.tables import aligned

MAX_HOLES = 3  # that are told one by one


def lines(found: EdgeResult) -> list[str]:
    """The call, the two sides of the edge, then what is known of the values around it."""
    return [
        f"{call_text(found.case)}  on {found.setting}",
        f"{_wanted(found)}: {found.knob.what}",
        *_sides(found),
        *remarks(found),
        _effort(found),
    ]


def table(several: Sequence[EdgeResult]) -> list[str]:
    """One call on several boards: a row for each, then what is odd about any of them."""
    rows = [["board", "fits", "does not", "why"]]
    for found in several:
        fit, fail = found.fit, found.fail
        why = why_not(fail) if fail else _beyond(found)
        rows.append([found.setting.board, _shown(found, fit), _shown(found, fail), why])
    odd = [f"{found.setting.board}: {remark}" for found in several for remark in remarks(found, odd_alone=True)]
    first = several[0]
    head = [call_text(first.case), f"{_wanted(first)}: {first.knob.what}"]
    return [*head, *aligned(rows, left=(0, 3)), *odd, *(f"{found.setting}: {_effort(found)}" for found in several)]


def why_not(ran: ValueRun) -> str:
    """What ends it. What is not about memory is said to be something else."""
    verdict = ran.verdict
    by = "" if verdict.decided_by == "ttnn" else f" (said by {verdict.decided_by})"
    return (sentence(verdict) if verdict.status is Status.OOM else f"{verdict.status}: {sentence(verdict)}") + by


def remarks(found: EdgeResult, *, odd_alone: bool = False) -> list[str]:
    """What was found below the answer and beyond it; with ``odd_alone``, only what would surprise."""
    edge, told = found.edge, []
    told += _holes(found)
    if edge.fit is not None and not odd_alone:
        told += _known(found, edge.fit)
    if edge.contradicted:
        values = ", ".join(_shown(found, edge.tried[i]) for i in edge.contradicted)
        told.append(f"arithmetic was wrong of {values}: a defect of this program")
    if edge.is_spent:
        narrow = edge.is_confirmed or edge.is_open
        told.append(f"runs or time were used up: {'not all doubts were tried' if narrow else 'the edge may lie further on'}")
    return told


def _holes(found: EdgeResult) -> list[str]:
    """What fails before the answer, the first and the last of many, and where the first begins."""
    holes = found.edge.holes
    if not holes:
        return []
    shown = holes if len(holes) <= MAX_HOLES else [*holes[: MAX_HOLES - 1], holes[-1]]
    told = [f"before that it does not fit: {_stretch(found, h)}, {why_not(found.edge.tried[h.last_index])}" for h in shown]
    if len(shown) < len(holes):
        told.insert(-1, f"… and {len(holes) - len(shown)} more such stretches")
    safe = [index for index in found.edge.tried if index < holes[0].first_index]
    return [*told, f"up to {found.knob.shown(found.knob.values[safe[-1]])} all that was run fits"] if safe else told


def _known(found: EdgeResult, fit: int) -> list[str]:
    """Of the values that demand less than the answer, and of those that demand more, as far as was looked."""
    edge, told = found.edge, []
    less, more = ("larger", "smaller") if found.knob.goal.is_smallest else ("smaller", "larger")
    if fit:
        ran, judged = edge.known_between(0, fit - 1)
        fits = "; not all of them fit" if edge.holes else "; all of them fit" if ran else ""
        certain = f"; {judged:,} that were not run fit by arithmetic" if judged else ""
        told.append(f"of {fit:,} {less} values {ran or 'none'} run{fits}{certain}")
    beyond = [i for i in (*edge.tried, *edge.judged) if i > fit]
    if beyond:
        ran, judged = edge.known_between(fit + 1, max(beyond))
        certain = f"; {judged:,} that were not run are ruled out by arithmetic" if judged else ""
        last = found.knob.shown(found.knob.values[max(beyond)])
        told.append(f"of {max(beyond) - fit:,} {more} values, to {last}, {ran} run; none of them fits{certain}")
    return told


def _sides(found: EdgeResult) -> list[str]:
    fit, fail, edge = found.fit, found.fail, found.edge
    if fit is None:
        tried = ", ".join(_shown(found, ran) for ran in edge.tried.values())
        reasons = list(dict.fromkeys(why_not(ran) for ran in edge.tried.values()))
        more = f"; and {len(reasons) - 1} other reasons" if len(reasons) > 2 else f"; {reasons[1]}" if len(reasons) == 2 else ""
        return [f"nothing fits of {tried}: {reasons[0]}{more}"]
    shapes = fit.case.inputs or [subject_of(fit.case)]  # of a creation, the size that it is told
    at = "" if found.knob.goal.is_smallest else f": {' '.join(map(format_shape, shapes))}"
    told = [f"{_shown(found, fit)} fits{at}"]
    if fail is None:
        return [*told, _beyond(found)]
    told.append(f"{_shown(found, fail)} does not: {why_not(fail)}")
    if fail.verdict.status is not Status.OOM:
        told.append(f"what ends it is not memory: {fail.verdict.status}")
    return told


def _wanted(found: EdgeResult) -> str:
    goal = found.knob.goal
    return f"{'smallest' if goal.is_smallest else 'largest'} {goal}"


def _beyond(found: EdgeResult) -> str:
    """Where nothing beyond the answer was run."""
    if not found.edge.is_open:
        return "nothing beyond it was run"
    return f"no edge up to {found.knob.shown(found.knob.values[-1])}, the last value"


def _shown(found: EdgeResult, ran: ValueRun | None) -> str:
    return "none" if ran is None else found.knob.shown(ran.value)


def _stretch(found: EdgeResult, stretch: EdgeInterval[int]) -> str:
    first, last = found.knob.shown(stretch.first), found.knob.shown(stretch.last)
    return first if first == last else f"{first} to {last} ({stretch.runs} run)"


def _effort(found: EdgeResult) -> str:
    known = len(found.edge.tried) - found.ran
    runs = "1 run" if found.ran == 1 else f"{found.ran} runs"
    earlier = f", {known} known from before" if known else ""
    numerics = "; numerics not run" if found.setting.device_mode == "virtual" else ""
    return f"{runs}{earlier} in {found.seconds:.2f} s{numerics}"


def to_json(found: EdgeResult) -> dict[str, Any]:
    """All that was run, with the verdicts' numbers."""
    edge, knob = found.edge, found.knob
    return {
        "case": found.case.identity(),
        "key": found.case.key,
        "goal": str(knob.goal),
        "wanted": "smallest" if knob.goal.is_smallest else "largest",
        "what": knob.what,
        **found.setting.to_json(),
        "fit": _run(found, found.fit),
        "fail": _run(found, found.fail),
        "is_confirmed": edge.is_confirmed,
        "is_open": edge.is_open,
        "is_spent": edge.is_spent,
        "is_monotone_as_run": not edge.holes,
        "stretches": [{"first": s.first, "last": s.last, "fits": s.fits, "runs": s.runs} for s in edge.stretches],
        "tried": [_run(found, ran) for ran in edge.tried.values()],
        "judged_by_arithmetic": len(edge.judged.keys() - edge.tried.keys()),
        "contradicted": [edge.tried[i].value for i in edge.contradicted],
        "runs": found.ran,
        "seconds": round(found.seconds, 4),
    }


def _run(found: EdgeResult, ran: ValueRun | None) -> dict[str, Any] | None:
    if ran is None:
        return None
    verdict = {k: str(v) if isinstance(v, TextEnum) else v for k, v in asdict(ran.verdict).items() if v not in (None, "")}
    shortfall = ran.verdict.shortfall_bytes
    more = {} if shortfall is None else {"shortfall_bytes": shortfall}
    known = {"known_from_before": True} if ran.is_known else {}
    return {"value": ran.value, "shown": _shown(found, ran), "case": ran.case.identity(), **verdict, **more, **known}
