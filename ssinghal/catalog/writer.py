"""Writes captured catalogs as text: one call a line, the same content always the same bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssinghal.catalog.field_types import MAX_MODULES

_HEAD = "# Every call of the model's forward, in ATen order of arguments; w names the weights and constants among them.\n"
_PLAIN = re.compile(r"[A-Za-z_(][\w.=+()/-]*|[0-9]+\.[0-9]+\.[0-9][\w.+]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


def captured_text(head: Mapping[str, Any], sections: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns the text of a captured catalog: ``head`` without ``ops``, and overload -> lines (see ``catalog.captured``)."""
    lines = [f"{key}: {flow(value)}\n" for key, value in head.items()]
    lines.append("ops:\n")
    for overload, calls in sections.items():
        lines.append(f"  {overload}:\n")
        lines += [f"  - {flow(call)}\n" for call in calls]
    return _HEAD + "".join(lines)


def made_in(calls: Mapping[str, int]) -> dict[str, Any]:
    """Returns ``at`` of a line, and ``more`` where it cannot name every module, from the ``calls`` of each module in their
    order ("" for calls whose module is not known). The module of a single call is written without the number."""
    paths = [path for path in calls if path]
    named, beyond = paths[:MAX_MODULES], paths[MAX_MODULES:]
    others = sum(calls.values()) - sum(calls[path] for path in named)
    if not named:
        return {}
    if len(named) == 1 and calls[named[0]] == 1 and not others:
        return {"at": named[0]}
    more = {"more": {"modules": len(beyond), "calls": others}} if others else {}
    return {"at": {path: calls[path] for path in named}, **more}


def flow(value: Any) -> str:
    """Returns a value in YAML's flow style, with only the quotes that it needs."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """Returns a number as Python writes it, with a point, without which YAML reads 1e-05 as text."""
    if not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text
