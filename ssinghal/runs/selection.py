"""What a run selected, as its ``run.json`` states it, and why it left a case out that another run has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ssinghal.core.case import Source
from ssinghal.core.record import Record
from ssinghal.errors import InvalidCase
from ssinghal.operators import suite_name
from ssinghal.operators.binding import largest_bytes
from ssinghal.runs.reader import Run, case_or_none

MAX_NAMED = 5
_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class Selection:
    """The options of ``run`` or pytest that select cases; empty or None where all are selected."""

    # Names of catalogs, parts of ``kind/name``, or files.
    catalogs: tuple[str, ...] = ()
    # Names of operators, each that of its suite.
    operators: frozenset[str] = frozenset()
    # Where operands are placed, whatever the catalog states.
    memory: str | None = None
    # The memories in each of which every call is placed.
    placements: tuple[str, ...] = ()
    # Dtype of the weights of convolutions and matrix products.
    weights: str | None = None
    max_bytes: int | None = None
    # How many cases of each operator.
    sample: int | None = None
    # What pytest was given besides: expressions of -k and -m, node ids and files.
    tests: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Selection | None:
        """Returns None where the run does not state it: a ``records.jsonl`` alone, or a program's own run."""
        given = run.head.options
        if "catalogs" in given:  # of ``ssinghal run``
            names = ("catalogs", "operators", "memory", "max_bytes", "per_operator")
        elif "catalog" in given:  # of pytest
            names = ("catalog", "op", "memory", "max-bytes", "sample")
        else:
            return None
        catalogs, operators, memory, max_bytes, sample = map(given.get, names)
        tests = (*_texts(given.get("keyword")), *_texts(given.get("markers")), *_texts(given.get("tests")))
        return cls(
            _texts(catalogs),
            frozenset(map(_suite, _texts(operators))),
            memory,
            _texts(given.get("placements")),
            given.get("weights"),
            max_bytes,
            sample,
            tests,
        )

    @property
    def sampled_from(self) -> tuple[Any, ...]:
        """What decides which cases of an operator a sample has."""
        return self.catalogs, self.memory, self.placements, self.weights, self.max_bytes, self.sample

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories that operands are placed in; empty where the catalog's own are kept."""
        return self.placements or (() if self.memory is None else (self.memory,))


class Unselected:
    """Tells the cases that ``run`` left out by its selection from those that are gone. ``other``: the run that has them."""

    def __init__(self, run: Run, other: Run) -> None:
        self._run = run
        mine, theirs = Selection.of(run), Selection.of(other)
        self._known = mine is not None and theirs is not None and mine != theirs
        self._mine, self._theirs = mine or Selection(), theirs or Selection()
        self._catalogs = {source.catalog for record in run.records for source in record.sources}

    def reason(self, record: Record) -> str:
        """Returns why the run did not select a record of the other one, in words that follow its id; "" if it did, or if that
        is not known."""
        mine, theirs = self._mine, self._theirs
        if not self._known:
            return ""
        if record.sources and mine.catalogs != theirs.catalogs and not any(map(self._has_catalog, record.sources)):
            return "did not select these catalogs"
        if mine.operators and _suite(record.op) not in mine.operators:
            return "did not select these operators"
        if mine.max_bytes is not None and mine.max_bytes != theirs.max_bytes and _bytes(record) > mine.max_bytes:
            return f"left out operands of more than {mine.max_bytes:,} B"
        if mine.sample is not None and mine.sampled_from != theirs.sampled_from:
            return f"took a sample of {mine.sample:,} of each operator"
        if mine.memories not in ((), theirs.memories) and record.memory not in mine.memories:
            return f"placed operands in {', '.join(mine.memories)}"
        if mine.weights != theirs.weights:
            return f"had weights in {mine.weights or 'the dtype of the call'}"
        if mine.tests and mine.tests != theirs.tests:
            return f"ran other tests ({' '.join(mine.tests)})"
        return ""

    def notes(self, records: Iterable[Record]) -> list[str]:
        """Returns a line for each reason, with the number of the records that it holds for."""
        reasons: dict[str, list[Record]] = {}
        for record in records:
            reasons.setdefault(self.reason(record), []).append(record)
        return [f"{self._run.id} {reason}{_names(reason, left)}; {_cases(left)}" for reason, left in sorted(reasons.items())]

    def _has_catalog(self, source: Source) -> bool:
        """Whether the run selected a source's catalog: one of its records is from there, or its selection names it."""
        if source.catalog in self._catalogs:
            return True
        if not self._mine.catalogs:  # all built-in ones
            return not self._theirs.catalogs or _named(source, self._theirs.catalogs)
        return _named(source, self._mine.catalogs)


def _named(source: Source, texts: Iterable[str]) -> bool:
    """Whether one of ``texts`` is a part of the ``kind/name`` of a source's built-in catalog."""
    kind = "captured" if source.count else "crossed"
    return any(text in f"{kind}/{source.catalog}" for text in texts if not text.endswith(_FILES))


def _names(reason: str, records: Iterable[Record]) -> str:
    """Returns the catalogs or operators that a reason is about."""
    if reason.endswith("catalogs"):
        names = sorted({source.catalog for record in records for source in record.sources})
    elif reason.endswith("operators"):
        names = sorted({record.op for record in records})
    else:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f": {', '.join(names[:MAX_NAMED])}{more}"


def _cases(records: list[Record]) -> str:
    return f"{len(records):,} case{'' if len(records) == 1 else 's'} not compared"


def _bytes(record: Record) -> int:
    case = case_or_none(record)
    return largest_bytes(case) if case is not None else 0


def _suite(name: str) -> str:
    try:
        return suite_name(name)
    except InvalidCase:  # of another version
        return name


def _texts(value: Any) -> tuple[str, ...]:
    """Returns the texts of an option: a list of them, one, or none."""
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),) if value else ()
