"""The page of a large run: it opens on a summary, and loads the cases in parts from files beside it.

A part is a script that hands over packed data and does nothing else. The page's policy trusts its own script alone, which
loads the parts by the names and digests in the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from ssinghal.core.record import Record
from ssinghal.report import page
from ssinghal.report.bank_occupancy import bars_of, board_of
from ssinghal.report.group_report import GroupReport
from ssinghal.report.page_index import Index
from ssinghal.report.page_parts import Part
from ssinghal.report.page_summary import first_changes, summary
from ssinghal.report.placement_view import PlacementView, placement_views
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import RecordGroup, Run
from ssinghal.runs.stored import complete

PARTS = "report_parts"
PART_CASES = 2_500  # at most; a part has cases of one operator
LOADED_CASES = 20_000  # that the page loads at once; more on request


class LargePage:
    """Writes the parts, then the page, which lists them."""

    def __init__(self, run: Run, changes: Changes | None, reports: Sequence[GroupReport], part_cases: int = PART_CASES) -> None:
        self._run, self._changes, self._reports = run, changes, reports
        self._part_cases = part_cases
        self._groups: list[dict[str, Any]] = []

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yields the name and the text of each file in ``PARTS``."""
        views = placement_views(self._run)
        for number, report in enumerate(self._reports):
            index = Index()
            yield from self._parts_of(report, number, index)
            self._groups.append({
                **page.group_head(report.group),
                "placements": _placements(report.group, views),
                "index": index.packed(summary(report)),
            })  # fmt: skip

    def html(self, other_files: Sequence[str] = ()) -> str:
        """Returns the page. All ``parts`` must have been taken."""
        changes = page.changes_data(self._changes) if self._changes is not None else None
        if changes is not None and self._changes is not None:
            changes["found"], changes["more"] = first_changes(self._changes, changes["found"])
        data = page.run_data(self._run, changes, self._groups, [*other_files, f"{PARTS}/"])
        return page.html_of(self._run, {**data, "loadedCases": LOADED_CASES}, loads_parts=True)

    def _parts_of(self, report: GroupReport, number: int, index: Index) -> Iterator[tuple[str, str]]:
        for place, operator in enumerate(report.facts.operators):
            records = sorted(operator.records, key=lambda record: record.key)
            for start in range(0, len(records), self._part_cases):
                name = f"{PARTS}/{number}-{place}-{start // self._part_cases}"
                yield from _part(report, records[start : start + self._part_cases], name, index)


def _part(report: GroupReport, records: Sequence[Record], name: str, index: Index) -> Iterator[tuple[str, str]]:
    board = board_of(report.group)
    cases, tensors, details = Part(), Part(), Part()
    helps = []
    for record in map(complete, records):
        bars = bars_of(record, board) if board is not None else ()
        remedies = page.remedies_of(record, report) if record.is_oom else []
        helps.append([change for change, helping, _ in remedies if helping])
        page.add_case(cases, record, report, board, bars, remedies)
        tensors.add(tensors=page.tensors_of(record, tensors))
        page.add_details(details, record, bars, remedies)
    texts = {f"{name}.js": [cases.packed()], f"{name}-details.js": [tensors.packed(), details.packed()]}
    digests = {file: sha256("".join(packed).encode()).hexdigest()[:16] for file, packed in texts.items()}
    index.add(list(digests.items()), records, helps)
    for file, packed in texts.items():
        yield file, f"ssinghalPart({json.dumps([file, digests[file], packed])});\n"


def _placements(group: RecordGroup, views: Sequence[PlacementView]) -> dict[str, Any] | None:
    """Returns the views without their calls, which ``placements.md`` and ``placements.json`` list."""
    data = page.placements_data(group, views)
    return None if data is None else {**data, "models": [{**model, "rows": []} for model in data["models"]]}
