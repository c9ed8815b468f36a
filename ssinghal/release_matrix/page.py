"""A timeline as one self-contained page without scripts: counts and a grid as SVG, then a table.

The template escapes all texts, so catalogs and messages cannot inject markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jinja2

from ssinghal.core.verdict import Outcome
from ssinghal.release_matrix.matrix import MatrixRow, Timeline, outcome_of
from ssinghal.release_matrix.text import cell, change_text, outcome_rows, step_line
from ssinghal.render import html
from ssinghal.render.html import css_class, outcome_text
from ssinghal.render.tables import status_columns

PAGE = "timeline.html"
MAX_NUMBERS = 6  # of one change

BAR_LEFT, BAR_WIDTH, BAR_HEIGHT = 100, 720, 22
CELL_WIDTH, CELL_HEIGHT = 84, 16
LABEL_WIDTH, HEAD_HEIGHT = 440, 20
BASELINE = 12  # of a label in its row; what hangs below it, such as an underscore, has space too


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels. ``kind``: the CSS class that colours it. ``title``: its tooltip."""

    x: float
    y: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True)
class DrawnRow:
    """A row of the grid. ``changes``: x of the left edges of the boxes with a change."""

    row: MatrixRow
    label: str
    y: float
    boxes: tuple[Box, ...]
    changes: tuple[float, ...]


def page(timeline: Timeline, title: str) -> str:
    """Returns the HTML."""
    outcomes = status_columns(outcome for counts in timeline.outcomes for outcome in counts)
    grid = list(_grid(timeline))
    return html.page(
        _template(),
        title=title,
        style=html.asset("ssinghal.release_matrix", "templates/timeline.css"),
        timeline=timeline,
        steps=[step_line(step) for step in timeline.steps],
        outcomes=outcome_rows(timeline),
        legend=[(css_class(outcome), outcome_text(outcome)) for outcome in outcomes],
        bars=_bars(timeline, outcomes),
        grid=grid,
        columns=[(LABEL_WIDTH + (i + 0.5) * CELL_WIDTH, version) for i, version in enumerate(timeline.versions)],
        sizes={
            "bar": BAR_HEIGHT,
            "bars_width": BAR_LEFT + BAR_WIDTH,
            "bars_height": (BAR_HEIGHT + 6) * len(timeline.groups),
            "cell_width": CELL_WIDTH,
            "cell": CELL_HEIGHT,
            "baseline": BASELINE,
            "label": LABEL_WIDTH,
            "head": HEAD_HEIGHT,
            "grid_width": LABEL_WIDTH + CELL_WIDTH * len(timeline.groups),
            "grid_height": HEAD_HEIGHT + CELL_HEIGHT * len(grid),
        },
    )


def _bars(timeline: Timeline, outcomes: list[Outcome]) -> list[tuple[str, list[Box]]]:
    """Returns a bar for each release, with parts as wide as their share of the cases."""
    bars = []
    for i, (version, counts) in enumerate(zip(timeline.versions, timeline.outcomes, strict=True)):
        boxes, x = [], float(BAR_LEFT)
        for outcome in outcomes:
            if counts[outcome]:
                width = BAR_WIDTH * counts[outcome] / len(timeline.rows)
                title = f"{version}: {counts[outcome]:,} {outcome_text(outcome)}"
                boxes.append(Box(x, i * (BAR_HEIGHT + 6), width, css_class(outcome), title))
                x += width
        bars.append((version, boxes))
    return bars


def _grid(timeline: Timeline) -> Iterator[DrawnRow]:
    """Yields the cases that changed first, then the others in their order."""
    for i, row in enumerate([*timeline.changed, *(row for row in timeline.rows if not row.changes)]):
        y = HEAD_HEIGHT + CELL_HEIGHT * i
        label = f"{row.first.op} {row.first.id}"
        lefts = {version: LABEL_WIDTH + CELL_WIDTH * k for k, version in enumerate(timeline.versions)}
        boxes = tuple(
            Box(x, y, CELL_WIDTH, css_class(outcome_of(record)), f"{version}: {cell(record)}")
            for record, (version, x) in zip(row.records, lefts.items(), strict=True)
        )
        yield DrawnRow(row, label, y, boxes, tuple(lefts[change.after] for change in row.changes))


def _template() -> jinja2.Template:
    environment = html.templates("ssinghal.release_matrix")
    environment.filters.update(cell=cell, change=lambda change: change_text(change, MAX_NUMBERS))
    return environment.get_template("release_matrix.html.j2")
