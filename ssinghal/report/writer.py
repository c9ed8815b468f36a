"""Writes the files of a report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ssinghal.core.files import write_whole
from ssinghal.errors import HarnessError
from ssinghal.report import json_export as data
from ssinghal.report import placement_text
from ssinghal.report.group_report import GroupReport
from ssinghal.report.markdown_documents import document, operator_document
from ssinghal.report.page import page
from ssinghal.report.placement_view import placement_views
from ssinghal.report.retry import of_setting, tried_remedies
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import Run

PAGE = "report.html"
PER_OPERATOR = "per_operator"
DOCUMENTS = ("oom_comprehensive_analysis.md", "memory_analysis_summary.md", "final_comprehensive_report.md")
OOM_REPORT = "comprehensive_oom_report.json"
FAILURES = "oom_failures_detailed.csv"
TABLES: Mapping[str, Callable[[Run, Sequence[GroupReport]], dict[str, Any]]] = {
    "detailed_analysis_data.json": data.analysis,
    "operator_mapping.json": data.mapping,
    "mapping_analysis.json": data.mapping_analysis,
    "basic_operators.json": data.basic_operators,
}
WRITTEN = ".report-files"  # lists the files of the last report in a folder, which the next one may remove


def files_of(run: Run, changes: Changes | None = None) -> dict[str, Callable[[], str]]:
    """Returns a function for the text of every file of the report, by the file's path within the folder.

    ``changes``: differences from an earlier run.
    """
    tried, lost = tried_remedies(run)
    run = replace(run, remarks=(*run.remarks, *lost))
    reports = [GroupReport(group, of_setting(tried, group.setting)) for group in run.groups]

    def oom_report() -> str:
        return _json({**data.oom_report(run, reports), "since": changes.to_json() if changes is not None else None})

    texts: dict[str, Callable[[], str]] = {name: partial(document, name, run, reports, changes=changes) for name in DOCUMENTS}
    texts |= {FAILURES: partial(data.failures_csv, run, reports), OOM_REPORT: oom_report}
    texts |= {name: partial(_table, table, run, reports) for name, table in TABLES.items()}
    if views := placement_views(run):
        texts |= {
            "placements.md": partial(placement_text.document, run, views),
            "placements.json": partial(_json, {"run": run.id, "views": [view.to_json() for view in views]}),
        }
    operators = sorted({results.op for report in reports for results in report.facts.operators})
    other_files = (*texts, f"{PER_OPERATOR}/")
    texts |= {f"{PER_OPERATOR}/{n}.md": partial(operator_document, op, run, reports) for op, n in file_names(operators).items()}
    return {PAGE: partial(page, run, changes, reports, other_files), **texts}


def _table(table: Callable[[Run, Sequence[GroupReport]], dict[str, Any]], run: Run, reports: Sequence[GroupReport]) -> str:
    return _json(table(run, reports))


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def file_names(operators: Iterable[str]) -> dict[str, str]:
    """Returns a distinct file name for each operator: its name, with characters that a file system may reject replaced."""
    names: dict[str, str] = {}
    for op in operators:
        name = plain = re.sub(r"[^A-Za-z0-9_.-]", "_", op)[:100].lstrip(".") or "_"
        others = 1
        while name.lower() in {taken.lower() for taken in names.values()}:
            others += 1
            name = f"{plain}-{others}"
        names[op] = name
    return names


def write_report(run: Run, folder: Path, changes: Changes | None = None) -> list[Path]:
    """Writes all files of the report and returns their paths. Removes files of an earlier report that this one does not have,
    and no others.

    Each file is written completely or not at all.

    Raises:
        HarnessError: the folder cannot be written.
    """
    listed = folder / WRITTEN
    try:
        (folder / PER_OPERATOR).mkdir(parents=True, exist_ok=True)
        before = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    except OSError as error:
        raise HarnessError(f"cannot write the report to {folder}: {error.strerror}") from error
    texts = files_of(run, changes)
    for name, text_of in texts.items():
        write_whole(folder / name, text_of())
    for name in set(before) - set(texts):
        if (folder / name).resolve().is_relative_to(folder.resolve()):
            (folder / name).unlink(missing_ok=True)
    write_whole(listed, "\n".join(texts))
    return [folder / name for name in texts]
