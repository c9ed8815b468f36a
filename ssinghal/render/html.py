"""Self-contained HTML pages: style, scripts and data are inline, and the Content-Security-Policy allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from ssinghal.core.verdict import Outcome, Resource, Status

_BASE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{ title }}</title>
<style>{{ style }}</style>
</head>
<body>
{% block body required %}{% endblock %}
{% if script %}
<script type="application/json" id="data">{{ data }}</script>
<script>{{ script }}</script>
{% endif %}
</body>
</html>
"""
_BY_SCRIPT = "'strict-dynamic'"
_NOT_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}  # json itself escapes everything that is not ASCII


def templates(package: str) -> jinja2.Environment:
    """Returns the environment of the templates in ``package``. All templates but Markdown ones (``.md.j2``) escape texts; HTML
    ones extend ``base.html.j2`` with a block ``body``."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.DictLoader({"base.html.j2": _BASE})]),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(disabled_extensions=("md.j2",), default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    return environment


def asset(package: str, path: str) -> str:
    return (files(package) / path).read_text(encoding="utf-8")


def page(
    template: jinja2.Template,
    *,
    title: str,
    style: str,
    scripts: Sequence[str] = (),
    data: Any = None,
    loads_parts: bool = False,
    **more: Any,
) -> str:
    """Returns the HTML of ``template``, which may use the values in ``more``. ``scripts`` share one scope; ``data`` is the JSON
    in the element of that id. ``loads_parts``: whether the scripts may load others, which markup never may."""
    script = "\n".join(['(() => {\n"use strict";', *scripts, "})();\n"]) if scripts else ""
    html = template.render(
        title=title,
        policy=Markup(content_policy(style, script, loads_parts)),
        style=Markup(style),
        script=Markup(script),
        data=Markup(script_data(data)),
        loads_parts=loads_parts,
        **more,
    )
    return html.encode("utf-8", "replace").decode()  # JSON can hold half of a surrogate pair, a file cannot


def content_policy(style: str, script: str, loads_parts: bool = False) -> str:
    """Returns a policy under which a browser uses this one inline style and script, and loads nothing; with ``loads_parts``,
    only scripts that this script adds as elements, wherever the page is, in a folder or on a server."""
    scripts = f"script-src {_hash(script)}{' ' + _BY_SCRIPT if loads_parts else ''}; " if script else ""
    return f"default-src 'none'; style-src {_hash(style)}; {scripts}base-uri 'none'; form-action 'none'"


def script_data(value: Any) -> str:
    """Returns JSON for a script element, which no text in it can end.

    >>> script_data(["</script>"])
    '["\\\\u003c/script\\\\u003e"]'
    """
    return json.dumps(value, separators=(",", ":")).translate(_NOT_IN_SCRIPTS)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# CSS classes of outcomes: an OOM has that of the memory that ran out.
_MEMORIES = {
    Resource.L1_BUFFER: "l1",
    Resource.L1_SMALL_BUFFER: "small",
    Resource.DRAM_BUFFER: "dram",
    Resource.CIRCULAR_BUFFER: "program",
    Resource.CLASH: "clash",
    Resource.KERNEL_CONFIG: "program",
}
_STATUSES = {
    Status.FITS: "fits",
    Status.AGREES: "none",
    Status.UNSUPPORTED: "none",
    Status.NOT_RUN: "none",
    Status.INVALID: "none",
    Status.OOM: "other",
}


def css_class(outcome: Outcome) -> str:
    """Returns the CSS class that colours ``outcome``."""
    status, resource = Status(outcome[0]), outcome[1]
    return _MEMORIES.get(Resource(resource), "other") if resource else _STATUSES.get(status, "fault")


def outcome_text(outcome: Outcome) -> str:
    return " ".join(filter(None, outcome))
