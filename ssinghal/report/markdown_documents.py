"""The Markdown documents: tables counted elsewhere, prose in ``templates``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jinja2

from ssinghal.operators import operators as registry
from ssinghal.render.html import templates
from ssinghal.render.markdown import code, text
from ssinghal.report import failure_tables, operator_tables, result_tables
from ssinghal.report.group_report import GroupReport
from ssinghal.runs.diff_text import SHOWN
from ssinghal.runs.diff_text import markdown as changes_markdown
from ssinghal.runs.reader import Run


def document(name: str, run: Run, chapters: Sequence[GroupReport], **more: Any) -> str:
    """The Markdown of ``templates/<name>.j2`` for all groups of the run, each a chapter of its own. ``more``: what the template
    asks for besides, such as the ``changes`` since an earlier run."""
    return _templates().get_template(f"{name}.j2").render(run=run, chapters=chapters, **more).strip() + "\n"


def operator_document(op: str, run: Run, chapters: Sequence[GroupReport]) -> str:
    """All groups' cases of one operator."""
    found = [(chapter, results) for chapter in chapters for results in chapter.facts.operators if results.op == op]
    return document("operator.md", run, chapters, op=op, info=registry().get(op), found=found)


@cache
def _templates() -> jinja2.Environment:
    environment = templates("ssinghal.report")  # Markdown is not escaped: every text passes through the filters or ``table``
    environment.filters.update(text=text, code=code)
    environment.globals.update(
        failures=failure_tables,
        results=result_tables,
        of_operator=operator_tables,
        since=partial(changes_markdown, shown=SHOWN),
    )
    return environment
