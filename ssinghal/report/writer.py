"""Writes the files of a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ssinghal.core.files import LineFile, read_limited, write_pieces, write_whole
from ssinghal.core.locks import remove_left, temporaries
from ssinghal.errors import HarnessError
from ssinghal.report import json_export as data
from ssinghal.report import placement_text
from ssinghal.report.call_variants import CallVariants
from ssinghal.report.group_report import GroupReport
from ssinghal.report.json_stream import json_pieces
from ssinghal.report.large_page import PARTS, LargePage
from ssinghal.report.markdown_documents import document, operator_document
from ssinghal.report.page import page
from ssinghal.report.placement_view import PlacementView, placement_views
from ssinghal.report.retry import of_setting, tried_remedies
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import Run
from ssinghal.runs.stored import LARGE_CASES

PAGE = "report.html"
PER_OPERATOR = "per_operator"
PLACEMENTS = ("placements.md", "placements.json")
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
# What such a list, which may have come with the folder, can have removed: files of reports alone.
_FIXED = {PAGE, *DOCUMENTS, OOM_REPORT, FAILURES, *TABLES, *PLACEMENTS}
_OWN = re.compile(rf"{PER_OPERATOR}/[A-Za-z0-9_][A-Za-z0-9_.-]*\.md|{PARTS}/[0-9-]+(?:details)?\.js")


Pieces = Iterable[str]


def files_of(run: Run, changes: Changes | None = None) -> dict[str, Callable[[], Pieces]]:
    """Returns a function for the text of every file of the report, in pieces, by the file's path within the folder. The page is
    one file.

    ``changes``: differences from an earlier run.
    """
    run, reports = _reports_of(run)
    documents = _documents(run, reports, changes)
    return {PAGE: _one(partial(page, run, changes, reports, _others(documents))), **documents}


def _reports_of(run: Run) -> tuple[Run, list[GroupReport]]:
    tried, lost = tried_remedies(run)
    run = replace(run, remarks=(*run.remarks, *lost))
    variants = CallVariants.of(run)
    return run, [GroupReport(group, of_setting(tried, group.setting), variants) for group in run.groups]


def _documents(run: Run, reports: Sequence[GroupReport], changes: Changes | None) -> dict[str, Callable[[], Pieces]]:
    """Returns the files other than the page."""

    def oom_report() -> Pieces:
        return json_pieces({**data.oom_report(run, reports), "since": changes.to_json() if changes is not None else None})

    texts: dict[str, Callable[[], Pieces]]
    texts = {name: _one(partial(document, name, run, reports, changes=changes)) for name in DOCUMENTS}
    texts |= {FAILURES: partial(data.failures_csv, run, reports), OOM_REPORT: oom_report}
    texts |= {name: partial(_table, table, run, reports) for name, table in TABLES.items()}
    if views := placement_views(run):
        texts |= {
            PLACEMENTS[0]: _one(partial(placement_text.document, run, views)),
            PLACEMENTS[1]: partial(_table, _views, run, views),
        }
    operators = sorted({results.op for report in reports for results in report.facts.operators})
    for op, name in file_names(operators).items():
        texts[f"{PER_OPERATOR}/{name}.md"] = _one(partial(operator_document, op, run, reports))
    return texts


def _others(documents: Iterable[str]) -> list[str]:
    """Returns the files that the page links to, those of operators as one folder."""
    folder = f"{PER_OPERATOR}/"
    return [*(name for name in documents if not name.startswith(folder)), folder]


def _one(text_of: Callable[[], str]) -> Callable[[], Pieces]:
    return lambda: (text_of(),)


def _table(table: Callable[[Run, Any], dict[str, Any]], run: Run, of: Sequence[Any]) -> Pieces:
    return json_pieces(table(run, of))


def _views(run: Run, views: Sequence[PlacementView]) -> dict[str, Any]:
    return {"run": run.id, "views": [view.to_json() for view in views]}


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


def write_report(run: Run, folder: Path, changes: Changes | None = None, *, in_parts: bool | None = None) -> list[Path]:
    """Writes all files of the report and returns their paths. Removes files of an earlier report that this one does not have,
    and no others.

    Each file is written completely or not at all. ``in_parts``: whether the page loads its cases from files beside it, by
    default above ``LARGE_CASES``.

    Raises:
        HarnessError: the folder cannot be written.
    """
    listed = folder / WRITTEN
    try:
        (folder / PER_OPERATOR).mkdir(parents=True, exist_ok=True)
        before = read_limited(listed).decode(errors="replace").splitlines() if listed.is_file() else []
        _remove_left(folder)
    except OSError as error:
        raise HarnessError(f"cannot write the report to {folder}: {error.strerror}") from error
    if in_parts is None:
        in_parts = sum(len(group.records) for group in run.groups) > LARGE_CASES
    if in_parts:
        written = _write_large(run, folder, changes, before)
    else:
        texts = files_of(run, changes)
        written = list(texts)
        write_whole(listed, "\n".join(dict.fromkeys([*before, *written])))  # first: the next report removes what a kill leaves
        for name, pieces_of in texts.items():
            write_pieces(folder / name, pieces_of())
    for name in set(before) - set(written):
        is_own = name in _FIXED or _OWN.fullmatch(name)
        if is_own and (folder / name).parent.resolve().is_relative_to(folder.resolve()) and not (folder / name).is_dir():
            (folder / name).unlink(missing_ok=True)
    write_whole(listed, "\n".join(written))
    if not in_parts and (folder / PARTS).is_dir() and not any((folder / PARTS).iterdir()):
        (folder / PARTS).rmdir()  # an earlier report's
    return [folder / name for name in written]


def _remove_left(folder: Path) -> None:
    """Removes the parts of files of a report that killed processes left."""
    for parent in (folder, folder / PER_OPERATOR, folder / PARTS):
        if parent.is_symlink():
            continue
        for part, name in temporaries(parent):
            path = (parent / name).relative_to(folder).as_posix()
            if path in {*_FIXED, WRITTEN} or _OWN.fullmatch(path):
                remove_left(part)


def _write_large(run: Run, folder: Path, changes: Changes | None, before: Sequence[str]) -> list[str]:
    """Writes the parts before the page that lists them, and returns the names of all files, the page first. ``before``: those
    of an earlier report."""
    run, reports = _reports_of(run)
    documents = _documents(run, reports, changes)
    try:
        (folder / PARTS).mkdir(exist_ok=True)
    except OSError as error:
        raise HarnessError(f"cannot write the report to {folder}: {error.strerror}") from error
    made = LargePage(run, changes, reports)
    parts = []
    write_whole(folder / WRITTEN, "\n".join(dict.fromkeys([*before, PAGE, *documents])))
    with LineFile(folder / WRITTEN, "a") as listed:
        for name, text in made.parts():
            listed.write(name)
            write_whole(folder / name, text)
            parts.append(name)
    write_whole(folder / PAGE, made.html(_others(documents)))
    for name, pieces_of in documents.items():
        write_pieces(folder / name, pieces_of())
    return [PAGE, *documents, *parts]
