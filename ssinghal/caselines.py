"""Cases as JSON objects, one a line: what ``probe --from`` reads and what a record repeats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ssinghal.cases import Case, OutputMemory, Placement
from ssinghal.errors import CatalogError, HarnessError, InvalidCase, unknown
from ssinghal.operators import make_case
from ssinghal.specs import BufferType, DType, Layout, TextEnum

KEYS = ("op", "inputs", "attrs", "dtype", "layout", "memory", "output_memory", "channels_last", "l1_small_size")


def case_from_json(fields: Any) -> Case:
    """The case of one JSON object; InvalidCase names the key that is wrong and what was expected.

    Only ``op`` is required (and ``inputs``, but for creation operators). Keys left out take the defaults: bfloat16, tile,
    dram, output with its inputs, channels-last and L1_SMALL as the operator needs.
    """
    if not isinstance(fields, Mapping):
        raise InvalidCase(f"expected a JSON object, got {type(fields).__name__}")
    for key in fields:
        if key not in KEYS:
            raise InvalidCase(unknown("key", str(key), KEYS))
    name = fields.get("op")
    if not isinstance(name, str):
        raise InvalidCase(f"op: expected an operator's name, got {name!r}")
    inputs = fields.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(s, list) for s in inputs):
        raise InvalidCase(f"inputs: expected a list of shapes like [[1, 64, 80, 80]], got {inputs!r}")
    attrs = fields.get("attrs") or {}
    if not isinstance(attrs, dict):
        raise InvalidCase(f"attrs: expected an object, got {attrs!r}")
    placement = Placement(
        dtype=member(DType, "dtype", fields.get("dtype", DType.BFLOAT16)),
        layout=member(Layout, "layout", fields.get("layout", Layout.TILE)),
        memory=member(BufferType, "memory", fields.get("memory", BufferType.DRAM)),
        output_memory=member(OutputMemory, "output_memory", fields.get("output_memory", OutputMemory.SAME)),
        channels_last=_optional(fields, "channels_last", bool),
        l1_small_bytes=_optional(fields, "l1_small_size", int),
    )
    return make_case(name, tuple(tuple(s) for s in inputs), attrs, placement)


def read_cases(path: Path, lines: Iterable[str]) -> list[Case]:
    """All cases of a JSONL file (blank lines are skipped). CatalogError with every faulty line, before anything runs."""
    cases, faults = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            cases.append(case_from_json(json.loads(line)))
        except json.JSONDecodeError as error:
            faults.append(f"{path}:{number}: not JSON: {error.msg} (column {error.colno})")
        except HarnessError as error:
            faults.append(f"{path}:{number}: {error}")
    if faults:
        raise CatalogError(faults)
    return cases


def member(kind: type[TextEnum], what: str, value: Any) -> Any:
    """``value`` as a member of ``kind``; InvalidCase with the nearest names."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidCase(unknown(what, str(value), [str(m) for m in kind])) from None


def _optional(fields: Mapping[str, Any], key: str, kind: type) -> Any:
    value = fields.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is None or (is_count if kind is int else isinstance(value, bool)):
        return value
    raise InvalidCase(f"{key}: expected {'true or false' if kind is bool else 'a whole number of bytes'}, got {value!r}")
