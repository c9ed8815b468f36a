"""The Markdown documents: prose from ``templates``, with the tables of other modules."""

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


def document(name: str, run: Run, reports: Sequence[GroupReport], **more: Any) -> str:
    """Returns the Markdown of ``templates/<name>.j2`` with a chapter for each group of the run. ``more``: further values for
    the template, such as the ``changes`` since an earlier run."""
    return _templates().get_template(f"{name}.j2").render(run=run, reports=reports, **more).strip() + "\n"


def operator_document(op: str, run: Run, reports: Sequence[GroupReport]) -> str:
    """Returns the Markdown about one operator, with the cases of all groups."""
    of_op = [(report, results) for report in reports for results in report.facts.operators if results.op == op]
    return document("operator.md", run, reports, op=op, info=registry().get(op), of_op=of_op)


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
