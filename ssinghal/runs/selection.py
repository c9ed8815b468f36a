"""What a run selected, as its ``run.json`` states it, and why it left a case out that another run has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ssinghal.core.case import Source
from ssinghal.core.case_sets import Shard
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators import suite_name
from ssinghal.operators.binding import largest_bytes
from ssinghal.runs.parsing import case_or_none
from ssinghal.runs.variants import Variants

MAX_NAMED = 5
_FILES = (".yaml", ".yml")


class Selected(Protocol):
    """What is read of a run."""

    @property
    def id(self) -> str: ...
    @property
    def head(self) -> RunInfo: ...
    @property
    def catalogs(self) -> frozenset[str]: ...


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
    # The dtypes in each of which every call has its operands.
    dtypes: tuple[str, ...] = ()
    # Dtype of the weights of convolutions and matrix products.
    weights: str | None = None
    max_bytes: int | None = None
    # How many cases of each operator.
    sample: int | None = None
    # What pytest was given besides: expressions of -k and -m, node ids and files.
    tests: tuple[str, ...] = ()
    # The part that was run, of all that the others select.
    shard: Shard | None = None

    @classmethod
    def of(cls, run: Selected) -> Selection | None:
        """Returns None where the run does not state it: a ``records.jsonl`` alone, or a program's own run.

        Raises:
            HarnessError: Its shard is none.
        """
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
            _texts(given.get("dtypes")),
            given.get("weights"),
            max_bytes,
            sample,
            tests,
            _shard(run),
        )

    @property
    def sampled_from(self) -> tuple[Any, ...]:
        """What decides which cases of an operator a sample has."""
        return self.catalogs, self.memory, self.placements, self.dtypes, self.weights, self.max_bytes, self.sample

    @property
    def variants(self) -> Variants:
        return Variants(self.placements, self.memory, self.dtypes, self.weights)


class Unselected:
    """Tells the cases that ``run`` left out by its selection from those that are gone. ``other``: the run that has them."""

    def __init__(self, run: Selected, other: Selected) -> None:
        self._run = run
        mine, theirs = Selection.of(run), Selection.of(other)
        self._known = mine is not None and theirs is not None and mine != theirs
        self._mine, self._theirs = mine or Selection(), theirs or Selection()
        self._catalogs = run.catalogs
        self._counted: Counter[str] = Counter()
        self._named: dict[str, set[str]] = {}

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
        if other_variant := mine.variants.why_not(record, theirs.variants):
            return other_variant
        if mine.tests and mine.tests != theirs.tests:
            return f"ran other tests ({' '.join(mine.tests)})"
        if mine.shard is not None and self._is_of_another_part(record, mine.shard):
            return f"ran shard {mine.shard} alone"
        return ""

    def left_out(self, record: Record) -> bool:
        """Returns whether the run did not select a record of the other one, and counts it for ``notes`` if so."""
        if reason := self.reason(record):
            self._counted[reason] += 1
            self._named.setdefault(reason, set()).update(_names(reason, record))
        return bool(reason)

    def notes(self) -> list[str]:
        """Returns a line for each reason, with the number of the records that it holds for."""
        return [
            f"{self._run.id} {reason}{_listed(self._named[reason])}; {_cases(cases)}"
            for reason, cases in sorted(self._counted.items())
        ]

    def _is_of_another_part(self, record: Record, shard: Shard) -> bool:
        """Whether the shard of the run need not have a record's call. Where ``--memory`` of the other run alone moved it, the
        call of the catalog has another key, and so a part that the record does not state."""
        return not _has(shard, record.key) or self._mine.variants.lacks_move(record, self._theirs.variants)

    def _has_catalog(self, source: Source) -> bool:
        """Whether the run selected a source's catalog: one of its records is from there, or its selection names it."""
        if source.catalog in self._catalogs:
            return True
        if not self._mine.catalogs:  # all built-in ones
            return not self._theirs.catalogs or _named(source, self._theirs.catalogs)
        return _named(source, self._mine.catalogs)


def _shard(run: Selected) -> Shard | None:
    try:
        return Shard.parse(run.head.shard) if run.head.shard else None
    except InvalidCase as error:
        raise HarnessError(f"run {run.id}: {error}") from error


def _has(shard: Shard, key: str) -> bool:
    try:
        return shard.has(key)
    except ValueError:  # no key of this program, so that no part is known
        return True


def _named(source: Source, texts: Iterable[str]) -> bool:
    """Whether one of ``texts`` is a part of the ``kind/name`` of a source's built-in catalog."""
    kind = "captured" if source.count else "crossed"
    return any(text in f"{kind}/{source.catalog}" for text in texts if not text.endswith(_FILES))


def _names(reason: str, record: Record) -> set[str]:
    """Returns the catalogs or operators of a record that a reason is about."""
    if reason.endswith("catalogs"):
        return {source.catalog for source in record.sources}
    return {record.op} if reason.endswith("operators") else set()


def _listed(found: set[str]) -> str:
    names = sorted(found)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f": {', '.join(names[:MAX_NAMED])}{more}" if names else ""


def _cases(count: int) -> str:
    return f"{count:,} case{'' if count == 1 else 's'} not compared"


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
