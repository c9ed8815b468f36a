"""The columns of a record: what is kept of each line so that two runs of a million can be compared.

The columns come from the record that the reader made of the line, never from the line's text: both readers have one opinion of
a line. ``ANSWER`` is a digest of what ``runs.diff`` compares, ``CALL`` one of what ``runs.placements`` pairs calls by.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json

from ssinghal.core.record import Record
from ssinghal.runs.judging import compared_values
from ssinghal.runs.placements import call_of

VERSION = 2  # of the columns; files of another are made anew
TEXT, INTEGER, TRUTH = "VARCHAR", "BIGINT", "BOOLEAN"
LINE, START, SIZE = "line", "start", "size"  # where the record is in the uncompressed file: number, first byte, bytes
ANSWER, CALL = "answer", "call"


def _digest(value: Any) -> str:
    return blake2b(repr(value).encode(errors="surrogatepass"), digest_size=16).hexdigest()


# Of a record, by name: the type in SQL, and the value.
_OF_RECORD: dict[str, tuple[str, Callable[[Record], Any]]] = {
    "op": (TEXT, lambda record: record.op),
    "key": (TEXT, lambda record: record.key),
    "device_mode": (TEXT, lambda record: record.device_mode),
    "board": (TEXT, lambda record: record.board),
    "ttnn": (TEXT, lambda record: record.ttnn),
    "memory": (TEXT, lambda record: record.memory),
    "resource": (TEXT, lambda record: record.resource),
    "bank_bytes": (INTEGER, lambda record: record.bank_bytes),
    "compared": (TRUTH, lambda record: record.comparison is not None),
    "retried": (TRUTH, lambda record: bool(record.retried)),
    "taken": (TRUTH, lambda record: bool(record.taken_from)),
    "catalogs": ("VARCHAR[]", lambda record: sorted({source.catalog for source in record.sources})),
    ANSWER: (TEXT, lambda record: _digest(compared_values(record))),
    CALL: (TEXT, lambda record: _digest(call_of(record))),
}
# By name: the type in SQL. A text is empty where there is none, a number is null.
TYPES = {**dict.fromkeys((LINE, START, SIZE), INTEGER), **{name: kind for name, (kind, _) in _OF_RECORD.items()}}
SELECTED = ", ".join(f"coalesce({name}, '') AS {name}" if kind == TEXT else name for name, kind in TYPES.items())


def row_of(record: Record, line: int, start: int, size: int) -> bytes:
    """Returns the columns of a record as one object of JSON, without a line end."""
    values = (value(record) for _, value in _OF_RECORD.values())
    return to_json(dict(zip(TYPES, (line, start, size, *values), strict=True)))
