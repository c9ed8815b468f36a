"""Writes recorded calls of TTNN as Python: tensors are deleted after their last use, pieces that are alike become a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any


@dataclass(frozen=True)
class Ref:
    """A tensor of the transcript, by its index."""

    number: int


@dataclass(frozen=True)
class Expression:
    """Python that creates a value, such as ``ttnn.DRAM_MEMORY_CONFIG``."""

    text: str


@dataclass(frozen=True)
class RecordedCall:
    """A call. ``results``: indices of tensors, several where TTNN returned a list. ``raised``: it did not return."""

    function: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    results: tuple[int, ...]
    is_list: bool = False
    piece: int | None = None
    raised: bool = False


def script_lines(calls: Sequence[RecordedCall], names: Mapping[int, str]) -> list[str]:
    """Returns the calls as lines of Python. ``names``: of tensors with a given name, which are not deleted."""
    return _Writer(calls, dict(names)).lines()


def references(value: Any) -> Iterator[Ref]:
    """Yields the tensors in a call or in an argument."""
    if isinstance(value, RecordedCall):
        yield from references(value.args)
        yield from references([v for _, v in value.kwargs])
    elif isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from references(item)


def python(value: Any, names: Mapping[int, str]) -> str:
    """Returns an argument as Python."""
    if isinstance(value, Ref):
        return names[value.number]
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, tuple) and all(isinstance(v, tuple) and len(v) == 2 for v in value):
        return "{" + ", ".join(f"{k!r}: {python(v, names)}" for k, v in value) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(python(v, names) for v in value) + "]"
    return repr(value)


class _Writer:
    """Turns recorded calls into lines.

    Tensors that only exist within a piece have the same names in each. Those that are used after their piece go into a list,
    ``pieces``, and a call that takes all of them in order takes the list.
    """

    def __init__(self, calls: Sequence[RecordedCall], names: dict[int, str]) -> None:
        self.calls = calls
        self.names = names
        self.last_use = {ref.number: i for i, call in enumerate(calls) for ref in references(call)}
        self.lists = self._lists()
        self.kept = {number: name for name, numbers in self.lists.items() for number in numbers}
        self.names |= {n: f"{name}[{i}]" for name, numbers in self.lists.items() for i, n in enumerate(numbers)}

    def _lists(self) -> dict[str, list[int]]:
        """Returns lists of the tensors that are used after their piece: the first of every piece, the second, and so on."""
        ends = {call.piece: i for i, call in enumerate(self.calls) if call.piece is not None}
        kept: dict[int, list[int]] = {piece: [] for piece in ends}
        for call in self.calls:
            if call.piece is not None:
                kept[call.piece] += [n for n in call.results if self.last_use.get(n, len(self.calls)) > ends[call.piece]]
        width = max((len(numbers) for numbers in kept.values()), default=0)
        names = ["pieces"] if width == 1 else [f"pieces{k + 1}" for k in range(width)]
        return {name: [numbers[k] for numbers in kept.values()] for k, name in enumerate(names)}

    def lines(self) -> list[str]:
        lines = [f"{' = '.join(self.lists)} = []"] if len(self.lists) == 1 else [f"{name} = []" for name in self.lists]
        starts = bool(self.lists)
        written: list[str] = []
        position = 0
        for in_piece, group in groupby(self.calls, key=lambda call: call.piece is not None):
            calls = list(group)
            if in_piece:
                written += [*(lines if starts else []), *self._loops(calls)]
                starts = False
            else:
                for offset, call in enumerate(calls):
                    written += self._statement(call, position + offset)
            position += len(calls)
        return written

    def _statement(self, call: RecordedCall, position: int) -> list[str]:
        for number in call.results:
            self.names.setdefault(number, f"t{sum(name.startswith('t') for name in self.names.values())}")
        text = self._written(call, self.names)
        results = ", ".join(self.names[n] for n in call.results)
        target = f"[{results}] = " if call.is_list and call.results else f"{results} = " if results else ""
        done = {r.number for r in references(call) if self.last_use[r.number] == position} - set(call.results)
        unused = {self.names.get(n, "") for n in done if n not in self.kept}
        unused = {name for name in unused if name.startswith("t")}
        unused |= {self.kept[n] for n in done if n in self.kept and self._is_done(self.kept[n], position)}
        freed = [] if call.function.endswith(".deallocate") or not unused else [f"del {', '.join(sorted(unused))}"]
        return [target + text, *freed]

    def _is_done(self, name: str, position: int) -> bool:
        """Returns whether no call after ``position`` uses the list."""
        return all(self.last_use.get(number, len(self.calls)) <= position for number in self.lists[name])

    def _written(self, call: RecordedCall, names: Mapping[int, str]) -> str:
        parts = [self._argument(a, names) for a in call.args] + [f"{k}={self._argument(v, names)}" for k, v in call.kwargs]
        return f"{call.function}({', '.join(parts)})"

    def _argument(self, value: Any, names: Mapping[int, str]) -> str:
        if isinstance(value, list) and value and isinstance(value[0], Ref):
            numbers = [r.number for r in value if isinstance(r, Ref)]
            for name, kept in self.lists.items():
                if numbers == kept:
                    return name
        return python(value, names)

    def _loops(self, calls: Sequence[RecordedCall]) -> list[str]:
        """Returns loops over neighbouring pieces that differ only in numbers; any other piece is written by itself."""
        pieces = [list(group) for _, group in groupby(calls, key=lambda call: call.piece)]
        lines = []
        for _, alike in groupby(pieces, key=lambda piece: [_shape_of(c, _local(piece)) for c in piece]):
            lines += self._loop(list(alike))
        return lines

    def _loop(self, pieces: list[list[RecordedCall]]) -> list[str]:
        numbers = [[n for call in piece for n in _numbers_of((call.args, call.kwargs))] for piece in pieces]
        rows = [list(row) for row in zip(*numbers, strict=True)]
        varying = [i for i, row in enumerate(rows) if len(set(row)) > 1]
        head, words = _loop_head([rows[i] for i in varying])
        replacement = dict(zip(varying, words, strict=True))
        first, count = pieces[0], iter(range(len(rows)))
        names = dict(self.names)
        body = []
        for call in first:
            call = replace(
                call, args=_replaced(call.args, count, replacement), kwargs=_replaced(call.kwargs, count, replacement)
            )
            for number in call.results:
                names[number] = f"p{sorted(_local(first)).index(number)}"
            results = ", ".join(names[n] for n in call.results)
            target = f"[{results}] = " if call.is_list and results else f"{results} = " if results else ""
            body.append(target + self._written(call, names))
        body += [f"{self.kept[n]}.append({names[n]})" for n in sorted(_local(first)) if n in self.kept]
        return [head, *(f"    {line}" for line in body)] if head else body


def _local(piece: Sequence[RecordedCall]) -> set[int]:
    return {n for call in piece for n in call.results}


def _shape_of(value: Any, local: set[int]) -> Any:
    """Returns ``value`` without its numbers, and with tensors numbered within the piece: equal for pieces that are alike."""
    if isinstance(value, RecordedCall):
        return [value.function, _shape_of(value.args, local), _shape_of(value.kwargs, local), len(value.results)]
    if isinstance(value, Ref):
        return ["local", sorted(local).index(value.number)] if value.number in local else ["outer", value.number]
    if isinstance(value, (list, tuple)):
        return [_shape_of(v, local) for v in value]
    return "number" if _is_number(value) else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbers_of(value: Any) -> Iterable[int]:
    if _is_number(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers_of(item)


def _replaced(value: Any, count: Iterator[int], replacement: Mapping[int, str]) -> Any:
    if _is_number(value):
        return Expression(word) if (word := replacement.get(next(count))) is not None else value
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(v, count, replacement) for v in value)
    return value


def _loop_head(rows: Sequence[Sequence[int]]) -> tuple[str, list[str]]:
    """Returns ``for …:`` over numbers that change together, and the word for each; no loop where nothing changes.

    >>> _loop_head([[0, 80, 160], [80, 160, 240]])
    ('for i in range(0, 240, 80):', ['i', 'i + 80'])
    >>> _loop_head([[0, 96], [96, 128]])
    ('for i, j in [(0, 96), (96, 128)]:', ['i', 'j'])
    """
    if not rows:
        return "", []
    first = rows[0]
    steps = {b - a for a, b in pairwise(first)}
    offsets = [{value - base for value, base in zip(row, first, strict=True)} for row in rows]
    if len(steps) == 1 and all(len(o) == 1 for o in offsets):
        step = steps.pop()
        words = ["i" + (f" + {o}" if (o := offset.pop()) > 0 else f" - {-o}" if o else "") for offset in offsets]
        return f"for i in range({first[0]}, {first[-1] + step}, {step}):", words
    columns: list[Sequence[int]] = []
    for row in rows:
        if row not in columns:
            columns.append(row)
    letters = "ijklmnopqrstuvw"
    words = [letters[columns.index(row)] if len(columns) <= len(letters) else f"v{columns.index(row)}" for row in rows]
    used = list(dict.fromkeys(words))
    values = ", ".join(str(values if len(columns) > 1 else values[0]) for values in zip(*columns, strict=True))
    return f"for {', '.join(used)} in [{values}]:", words
