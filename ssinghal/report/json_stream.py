"""JSON that is written piece by piece: lists of a large run's cases are never in memory as one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class Streamed:
    """A list in JSON whose items are made as they are written, each time anew."""

    def __init__(self, items: Callable[[], Iterable[Any]]) -> None:
        self.items = items

    def map(self, change: Callable[[Any], Any]) -> Streamed:
        return Streamed(lambda: map(change, self.items()))


def json_pieces(value: Any) -> Iterator[str]:
    """Yields the text that ``json.dumps`` has of ``value``, which may hold ``Streamed`` lists in its mappings, and in lists of
    mappings.

    >>> "".join(json_pieces({"a": Streamed(lambda: [1, 2]), "b": [{"c": None}]}))
    '{"a": [1, 2], "b": [{"c": null}]}'
    """
    if isinstance(value, Streamed):
        yield from _joined("[", map(_text, value.items()), "]")
    elif isinstance(value, Mapping) and _holds(value.values()):
        yield "{"
        for number, (key, inner) in enumerate(value.items()):
            yield f"{', ' if number else ''}{_text(key)}: "
            yield from json_pieces(inner)
        yield "}"
    elif isinstance(value, list) and _holds(value):
        yield "["
        for number, inner in enumerate(value):
            yield ", " if number else ""
            yield from json_pieces(inner)
        yield "]"
    else:
        yield _text(value)


def _holds(values: Iterable[Any]) -> bool:
    return any(
        isinstance(value, Streamed)
        or (isinstance(value, Mapping) and _holds(value.values()))
        or (isinstance(value, list) and _holds(one for one in value[:1] if isinstance(one, Mapping)))
        for value in values
    )


def _joined(before: str, texts: Iterable[str], after: str) -> Iterator[str]:
    yield before
    for number, text in enumerate(texts):
        yield f"{', ' if number else ''}{text}"
    yield after


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
