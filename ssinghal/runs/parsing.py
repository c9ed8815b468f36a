"""Reads the lines of ``records.jsonl`` into typed records. Imports neither torch nor ttnn.

This is the only module that validates records, so that those that write them need not import pydantic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ssinghal.core.case import Case, Source
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_text import read_json
from ssinghal.core.json_values import LINE, SIZE_BITS, fields_of, plain
from ssinghal.core.record import SCHEMA_VERSION, Record
from ssinghal.errors import HarnessError, InvalidCase, one_line
from ssinghal.operators.case_json import KEYS, MIXED_KEYS, case_from_json
from ssinghal.runs.line_files import blocks

_RECORD = TypeAdapter(Record)
_DEVICE = TypeAdapter(DeviceFacts)
_ORDER: Mapping[str | int, int] = {field.name: place for place, field in enumerate(fields(Record))}

MAX_LOSSES = 20
# Keys that stand in a line once, as neither a part of the record nor a value has the name.
_ONCE = tuple(f'"{name}"'.encode() for name in ("status", "op", "key", "id", "operator", "device_mode", "board"))


# What earlier versions wrote of a source, with the defaults.
_FIRST_MODULE: Mapping[str, Any] = {"catalog": "", "model": "", "input_size": "", "count": 1, "module_path": ""}


def parse_record(text: str | bytes) -> Record:
    """Reads one line of ``records.jsonl``. Fields of later versions are ignored: only a new schema number changes the meaning
    of the old ones.

    Raises:
        ValueError: It is not a record.
    """
    record = _RECORD.validate_json(_with_modules(text), strict=True)
    if _is_suspect(text.encode(errors="surrogatepass") if isinstance(text, str) else text, record):
        _check_notation(text)
    return record


def _is_suspect(line: bytes, record: Record) -> bool:
    """Whether a line may have what is no JSON, or a key twice, of which pydantic takes the last. A complete check takes as
    long as reading the record, so only lines with a sign of it have one."""
    is_odd = b"NaN" in line or b"Infinity" in line or any(line.count(key) > 1 for key in _ONCE)
    return is_odd or not _is_finite(record.attrs)


def _is_finite(value: Any) -> bool:
    """Whether there is no infinity in a value of JSON: a number such as 1e400 is read as one."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, (list, tuple)) else True


def _check_notation(text: str | bytes) -> None:
    """Raises ValueError for a number that JSON does not have or no float holds, and for a key that an object has twice."""
    read_json(text.decode() if isinstance(text, bytes) else text, unique=True, bits=SIZE_BITS)


def _with_modules(text: str | bytes) -> str | bytes:
    """Returns a line as this version writes it: earlier ones recorded only the first module of each source, its
    ``module_path``."""
    line = text.encode() if isinstance(text, str) else text
    if b'"module_path"' not in line or b'"modules"' in line:
        return text
    try:
        record = json.loads(line)
        for source in record["sources"]:
            fields = [source.get(name, default) for name, default in _FIRST_MODULE.items()]
            source |= plain(fields_of(Source.of_first(*fields)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text  # no record: the reader states why
    return json.dumps(record)


def parse_device(text: str | bytes) -> DeviceFacts:
    """Reads what ``DeviceFacts.to_json`` writes.

    Raises:
        ValueError: It is something else.
    """
    return _DEVICE.validate_json(text, strict=True)


def record_text(record: Record, without: set[str]) -> str:
    """Returns the record as JSON that ``parse_record`` reads, without the fields ``without`` and those at their defaults."""
    return _RECORD.dump_json(record, exclude=without, exclude_defaults=True).decode()


def identity_of(record: Record) -> dict[str, Any]:
    """Returns what ``Case.identity`` returns of the record's case."""
    fields = {key: plain(getattr(record, key)) for key in KEYS}
    return {key: value for key, value in fields.items() if value or key not in MIXED_KEYS}


def case_of(record: Record) -> Case:
    """Returns the call of a record.

    Raises:
        InvalidCase: This version has no such operator or call.
    """
    return case_from_json(identity_of(record))


def case_or_none(record: Record) -> Case | None:
    """Returns the call of a record, or None if this version has no such call."""
    try:
        return case_of(record)
    except InvalidCase:
        return None


def stored_records(path: Path) -> tuple[list[Record], list[str]]:
    """Returns the complete records of a file, and a text about each other line.

    Raises:
        HarnessError: It cannot be read, or was written by a newer version.
    """
    losses: list[str] = []
    return [record for _, record in complete_records(path, losses)], losses


def complete_records(path: Path, losses: list[str]) -> Iterator[tuple[tuple[int, int], Record]]:
    """Yields each complete record of a file with the start and size of its line, in bytes of the uncompressed file, and adds a
    text about each other line to ``losses``.

    Raises:
        HarnessError: It cannot be read, or was written by a newer version.
    """
    more = 0
    for block in blocks(path):
        last = block.number + block.data.count(b"\n")
        for number, start, line in block.lines():
            if not line.strip():
                continue
            read = record_or_loss(line, path, number, last=number == last)
            if isinstance(read, Record):
                yield (start, len(line)), read
            elif len(losses) < MAX_LOSSES:
                losses.append(loss_text(path, number, read))
            else:
                more += 1
    losses += more_losses(path, more)


def record_or_loss(line: bytes, path: Path, number: int, last: bool) -> Record | str:
    """Returns the record of a line, or why it is none. ``last``: whether the file ends without an end of this line.

    Raises:
        HarnessError: It was written by a newer version.
    """
    try:
        record = parse_record(line)
    except ValidationError as error:
        check_schema(schema_of(line), path, number)
        is_truncated = last and error.errors()[0]["type"] == "json_invalid"
        return f"truncated after {len(line):,} B; was the run killed?" if is_truncated else problem_of(error)
    except ValueError as error:
        return one_line(str(error))
    if b'"schema": 1,' not in line[:16]:  # as this version writes it; else the number is checked
        check_schema(schema_of(line), path, number)
    return record


def loss_text(path: Path, number: int, why: str) -> str:
    return f"{path}:{number}: not a complete record, skipped: {why}"


def more_losses(path: Path, count: int) -> list[str]:
    """Returns a text about the losses after the first ``MAX_LOSSES``, if there are any."""
    return [f"{path}: {count:,} more lines are not complete records"] if count > 0 else []


def schema_of(line: bytes) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value.get("schema") if isinstance(value, dict) else None


def check_schema(schema: Any, path: Path, number: int | None = None) -> None:
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        where = path if number is None else f"{path}:{number}"
        raise HarnessError(
            f"{where}: records of schema {schema}; this ssinghal reads up to {SCHEMA_VERSION}: use a newer version"
        )


def problem_of(error: ValidationError) -> str:
    first = min(error.errors(), key=lambda one: _ORDER.get(one["loc"][0], 0) if one["loc"] else 0)
    where = one_line(".".join(map(str, first["loc"])))
    what = "expected a text of one line" if first.get("ctx", {}).get("pattern") == LINE else str(first["msg"])
    return f"{where}: {what}" if where else what
