"""The files of a report, in a folder."""

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
from ssinghal.report.group_report import GroupReport
from ssinghal.report.markdown_documents import document, operator_document
from ssinghal.report.page import page
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
WRITTEN = ".report-files"  # what the last report into a folder wrote, so that the next one removes just that


def files_of(run: Run, changes: Changes | None = None) -> dict[str, Callable[[], str]]:
    """Every file of the report, by its path within the folder, and what makes its text.

    ``changes``: what differs from an earlier run.
    """
    tried, lost = tried_remedies(run)
    run = replace(run, remarks=(*run.remarks, *lost))
    chapters = [GroupReport(group, of_setting(tried, group.setting)) for group in run.groups]

    def oom_report() -> str:
        return _json({**data.oom_report(run, chapters), "since": changes.to_json() if changes is not None else None})

    made: dict[str, Callable[[], str]] = {name: partial(document, name, run, chapters, changes=changes) for name in DOCUMENTS}
    made |= {FAILURES: partial(data.failures_csv, run, chapters), OOM_REPORT: oom_report}
    made |= {name: partial(_table, table, run, chapters) for name, table in TABLES.items()}
    operators = sorted({results.op for chapter in chapters for results in chapter.facts.operators})
    beside = (*made, f"{PER_OPERATOR}/")
    made |= {f"{PER_OPERATOR}/{n}.md": partial(operator_document, op, run, chapters) for op, n in file_names(operators).items()}
    return {PAGE: partial(page, run, changes, chapters, beside), **made}


def _table(table: Callable[[Run, Sequence[GroupReport]], dict[str, Any]], run: Run, chapters: Sequence[GroupReport]) -> str:
    return _json(table(run, chapters))


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def file_names(operators: Iterable[str]) -> dict[str, str]:
    """A file's name for each operator's: its own, or of a name that no operator here has, what a file system takes."""
    found: dict[str, str] = {}
    for op in operators:
        name = plain = re.sub(r"[^A-Za-z0-9_.-]", "_", op)[:100].lstrip(".") or "_"
        others = 1
        while name.lower() in {taken.lower() for taken in found.values()}:
            others += 1
            name = f"{plain}-{others}"
        found[op] = name
    return found


def write_report(run: Run, folder: Path, changes: Changes | None = None) -> list[Path]:
    """Writes all files of the report and returns their paths. Files that an earlier report wrote there and this one does not
    are removed, and no others.

    Each file is the old or the new one, never half of one.

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
