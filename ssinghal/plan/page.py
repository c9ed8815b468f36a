"""Writes plans of models as one self-contained page: verdicts, timelines, live values, every step.

Texts are escaped by the template or written by the script as text, so that names and messages are never markup. Without a
script only the table of steps and the pointer over the timeline are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from ssinghal.core.tensors import DType, Shape, format_bytes, format_shape
from ssinghal.core.verdict import Resource, Status, Verdict, sentence
from ssinghal.errors import HarnessError
from ssinghal.plan.page_data import script_data
from ssinghal.plan.placed_text import facts, results_text, settings_and_moves, why_not_better
from ssinghal.plan.plot import Plot, plot_of
from ssinghal.plan.plot_l1 import L1Plot, l1_plot_of
from ssinghal.plan.result import SCHEMA, CallFailure, PlanResult, StepUse
from ssinghal.render import html
from ssinghal.render.html import css_class, outcome_text
from ssinghal.render.tables import percent

_REPORTS = ("dom.js", "format.js")  # scripts that the report's page runs, too
_DTYPES = {dtype.value for dtype in DType}
_FIELDS = {field.name for field in fields(PlanResult)}


@dataclass(frozen=True)
class EdgeTable:
    """A table of edges: a row for each tier, a column for each board. A row's first cell is its name; None is an empty cell.

    Raises:
        ValueError: the cells of a row do not match the columns.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | None]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: a row has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True)
class PlanView:
    """One plan of the page.

    ``l1_plot``: None where program buffers were not measured. ``facts``: those in which the plans of the page differ. ``like``:
    an earlier plan of the page with the same first failure, if there is one. ``term``: this program's name of what ran out,
    where ``outcome`` is the first on the page to use TTNN's, else "".
    """

    id: str
    plan: PlanResult
    plot: Plot | None
    l1_plot: L1Plot | None
    facts: Mapping[str, str]
    like: PlanView | None = None
    term: str = ""

    @property
    def name(self) -> str:
        model = f"{self.plan.model} on " if "model" in self.facts else ""
        return f"{model}{self.plan.board}, {self.plan.policy_name}"

    @property
    def outcome(self) -> str:
        return "no placement" if self.plan.is_unplaced else _words(self.plan.status, self.plan.failure)

    @property
    def kind(self) -> str:
        return _kind(self.plan.status, self.plan.failure)


def page(plans: Sequence[Mapping[str, Any]], tables: Sequence[EdgeTable] = ()) -> str:
    """Returns the HTML of ``plans``, each from ``PlanResult.to_json``, in order, with ``tables`` of edges.

    Raises:
        HarnessError: one of them is not a plan, or there is nothing to show.
    """
    if not plans and not tables:
        raise HarnessError("a page of plans: expected at least one plan or table")
    results = [read_plan(plan, f"plan {number}") for number, plan in enumerate(plans, 1)]
    conditions = [_facts(result) for result in results]
    first, *others = conditions or [{}]
    common = {name: text for name, text in first.items() if all(one[name] == text for one in others)}
    views: list[PlanView] = []
    for number, (result, own) in enumerate(zip(results, conditions, strict=True), 1):
        different = {name: text for name, text in own.items() if name not in common}
        like = next((view for view in views if view.like is None and _same_failure(view.plan, result)), None)
        term = _term(result) if all(view.outcome != _words(result.status, result.failure) for view in views) else ""
        views.append(PlanView(f"plan-{number}", result, plot_of(result), l1_plot_of(result), different, like, term))
    return html.page(
        _template(),
        title="Plan of " + ", ".join(dict.fromkeys(r.model for r in results)) if results else "How far models go",
        style=html.asset("ssinghal.report", "assets/page.css") + html.asset("ssinghal.plan", "templates/plan.css"),
        scripts=[
            *(html.asset("ssinghal.report", f"assets/{name}") for name in _REPORTS),
            html.asset("ssinghal.plan", "templates/plan.js"),
        ],
        data=script_data(results),
        common=common,
        views=views,
        tables=tables,
    )


def read_plan(document: Mapping[str, Any], where: str) -> PlanResult:
    """Returns the plan of a document written by ``PlanResult.to_json``.

    Raises:
        HarnessError: it is not such a document; the text has ``where`` and the first error.
    """
    if document.get("kind") != "plan" or document.get("schema") != SCHEMA:
        raise HarnessError(f"{where}: expected a plan of schema {SCHEMA}")
    try:
        return _reader().validate_python({name: value for name, value in document.items() if name in _FIELDS})
    except ValidationError as error:
        first = error.errors()[0]
        raise HarnessError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


@cache
def _reader() -> TypeAdapter[PlanResult]:
    return TypeAdapter(PlanResult)


def _facts(plan: PlanResult) -> dict[str, str]:
    """Returns the conditions of the verdict by name."""
    switches = [
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')}: {_switch(value)}"
        for name, value in plan.policy.items()
        if name not in ("name", "version")
    ]
    return {
        "model": plan.model,
        "input": ", ".join(map(format_shape, plan.input_shapes)),
        "device mode": plan.device_mode,
        "ttnn": plan.ttnn,
        "L1_SMALL region": format_bytes(plan.l1_small_size),
        "trace sha-256": plan.trace_sha256,
        "policy": f"{plan.policy_name}: {', '.join(switches)}",
    }


def _switch(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    if value is None:
        return "as recorded"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if value in _DTYPES:
        return str(value)
    return "no" if value is False else str(value).replace("_", " ")


def _same_failure(one: PlanResult, other: PlanResult) -> bool:
    """Returns whether both plans fail first in the same call of the same model, with the same figures."""
    if one.failure is None or other.failure is None or one.model != other.model:
        return False
    calls = [(f.operator, f.at, f.doing, f.operands, sentence(f.verdict)) for f in (one.failure, other.failure)]
    return calls[0] == calls[1]


def _words(status: Status, failure: CallFailure | None) -> str:
    """Names a verdict. Program buffers have the name that the release uses, as in its message."""
    resource = _resource(status, failure)
    kind = failure.verdict.buffer_kind if failure is not None else ""
    if resource is Resource.CIRCULAR_BUFFER and kind:
        return outcome_text((status.value, f"{kind} buffers"))
    return outcome_text((status.value, resource.value if resource is not None else None))


def _term(plan: PlanResult) -> str:
    resource = _resource(plan.status, plan.failure)
    return resource.value if resource is not None and resource.value not in _words(plan.status, plan.failure) else ""


def _kind(status: Status, failure: CallFailure | None) -> str:
    resource = _resource(status, failure)
    return css_class((status.value, resource.value if resource is not None else None))


def _resource(status: Status, failure: CallFailure | None) -> Resource | None:
    return failure.verdict.resource if failure is not None and failure.verdict.status is status else None


def _size(size_bytes: int | None) -> Markup:
    """Formats bytes as "568 MiB" with the exact number below."""
    if size_bytes is None:
        return Markup("–")
    rounded, _, exact = format_bytes(size_bytes).partition(" (")
    return Markup('{} <span class="exact">{}</span>').format(rounded, f"({exact}") if exact else Markup(rounded)


def _shapes(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(format_shape, shapes)) or "–"


def _failed(failure: CallFailure) -> str:
    return failure.where.removeprefix("at ")


def _step(use: StepUse | None) -> str:
    return "before the first step" if use is None else f"step {use.number} {use.operator} in {use.at or '(top)'}"


def _cell(value: str | int | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else value


def _numbers(verdict: Verdict) -> list[tuple[str, int, int | None]]:
    """Returns (name, bytes per bank, over all banks) for a buffer, and (name, bytes per core, None) for program buffers.

    Only numbers that the message has.
    """
    if verdict.bytes_per_bank is None:
        reach = "end at" if verdict.ends_at_address else "need"
        rows: list[tuple[str, int | None]] = [
            (f"{verdict.buffer_kind or 'program'} buffers {reach}", verdict.program_bytes),
            ("limit", verdict.limit_bytes),
            ("an L1 tensor begins at", verdict.tensor_address),
            ("short", verdict.shortfall_bytes),
        ]
        return [(name, size, None) for name, size in rows if size is not None]
    rows = [
        ("needs", verdict.bytes_per_bank),
        ("allocated", verdict.allocated_bytes),
        ("free", verdict.free_bytes),
        ("largest free block", verdict.largest_free_bytes),
        ("short", verdict.shortfall_bytes),
    ]
    banks = verdict.banks
    return [(name, size, size * banks if banks else None) for name, size in rows if size is not None]


def _template() -> jinja2.Template:
    environment = html.templates("ssinghal.plan")
    environment.filters.update(
        bytes=format_bytes, size=_size, percent=percent, shape=format_shape, shapes=_shapes, step=_step, failed=_failed,
        sentence=sentence, cell=_cell, places=results_text, how=settings_and_moves, why=why_not_better,
    )  # fmt: skip
    environment.globals.update(numbers_of=_numbers, facts_of=facts)
    return environment.get_template("plan.html.j2")
