"""Records → documents, tables and one page. Imports neither torch nor ttnn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ssinghal.changes import Changes
from ssinghal.errors import HarnessError
from ssinghal.report import data
from ssinghal.report.chapter import Chapter
from ssinghal.report.documents import document, operator_document
from ssinghal.report.page import page
from ssinghal.report.trying import tried_remedies
from ssinghal.runs import Run

PER_OPERATOR = "per_operator"
DOCUMENTS = ("oom_comprehensive_analysis.md", "memory_analysis_summary.md", "final_comprehensive_report.md")
PAGE = "report.html"


def report(run: Run, changes: Changes | None = None) -> Iterator[tuple[str, str]]:
    """Every file of the report, by its path within the folder: the page first, since it is what people open.

    ``changes``: what differs from an earlier run, for the page.
    """
    chapters = [Chapter(group, tried_remedies(run, group.setting)) for group in run.groups]
    yield PAGE, page(run, changes)
    for name in DOCUMENTS:
        yield name, document(name, run, chapters)
    yield "oom_failures_detailed.csv", data.failures_csv(run, chapters)
    tables: Mapping[str, Any] = {
        "comprehensive_oom_report.json": data.oom_report(run, chapters),
        "detailed_analysis_data.json": data.analysis(run, chapters),
        "operator_mapping.json": data.mapping(run),
        "mapping_analysis.json": data.mapping_analysis(run, chapters),
        "basic_operators.json": data.basic_operators(run, chapters),
    }
    for name, table in tables.items():
        yield name, json.dumps(table, indent=1, ensure_ascii=False) + "\n"
    for op in sorted({results.op for chapter in chapters for results in chapter.facts.operators}):
        yield f"{PER_OPERATOR}/{file_name(op)}.md", operator_document(op, run, chapters)


def file_name(op: str) -> str:
    """An operator's name as a file's; of a name that no operator here has, what a file system takes."""
    return re.sub(r"[^\w.-]", "_", op)[:100].lstrip(".") or "_"


def write_report(run: Run, folder: Path, changes: Changes | None = None) -> list[Path]:
    """Writes all files of the report and returns their paths; documents of operators that an earlier report had are removed.

    Each file is the old or the new one, never half of one.

    Raises:
        HarnessError: the folder cannot be written.
    """
    written = []
    with _writing(folder):
        (folder / PER_OPERATOR).mkdir(parents=True, exist_ok=True)
    for name, text in report(run, changes):
        path = folder / name
        with _writing(folder):
            aside = path.with_name(f".{path.name}")
            aside.write_text(text, encoding="utf-8", errors="replace")
            aside.replace(path)
        written.append(path)
    with _writing(folder):
        for path in set((folder / PER_OPERATOR).glob("*.md")) - set(written):
            path.unlink()
    return written


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HarnessError(f"cannot write the report to {folder}: {error.strerror}") from error


__all__ = ["PAGE", "file_name", "report", "write_report"]
