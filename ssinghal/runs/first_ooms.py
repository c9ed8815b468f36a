"""The first cases of a run that are out of memory, in the words of ``ssinghal probe``."""

from __future__ import annotations

import shlex
from bisect import insort
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import Resource, Status, Verdict, sentence
from ssinghal.errors import cut

NAMED = 5
_FIELDS = {field.name for field in fields(Verdict)} - {"status", "resource"}


class FirstOoms:
    """Keeps the first cases by operator and id, the same in whatever order they end, and counts the others."""

    def __init__(self) -> None:
        self._cases = 0
        self._first: list[tuple[str, str, int, Verdict]] = []

    def add(self, record: Mapping[str, Any]) -> None:
        """Counts one record of a case out of memory, given as it is written."""
        self._cases += 1
        name = (str(record["op"]), str(record["id"]))
        if len(self._first) < NAMED or name < self._first[-1][:2]:
            insort(self._first, (*name, self._cases, _verdict(record)))  # the count: verdicts have no order
            del self._first[NAMED:]

    def lines(self) -> tuple[str, ...]:
        """Returns a line for each of the first cases, and one that counts the others."""
        lines = [f"oom: {op} {cut(case_id, 150)}: {'; '.join(_words(verdict))}" for op, case_id, _, verdict in self._first]
        more = self._cases - len(self._first)
        return (*lines, *([f"oom: {more:,} more case{'s' * (more > 1)}"] if more else []))


def pointer(run: str, searched: bool) -> str:
    """Returns where all cases out of memory of a run are shown. ``searched``: whether its records have remedies already."""
    name = shlex.quote(run)
    remedies = "" if searched else f"; what makes them fit: ssinghal remedy --run {name}"
    return f"all cases out of memory: ssinghal report {name}{remedies}"


def shortage(verdict: Verdict) -> list[str]:
    """Returns a note on the bytes that a buffer lacks, if the verdict has them."""
    if verdict.shortfall_bytes is None or verdict.status is not Status.OOM:
        return []
    return [f"short by {format_bytes(verdict.shortfall_bytes)} per {'bank' if verdict.banks else 'core'}"]


def _words(verdict: Verdict) -> list[str]:
    return [sentence(verdict), *shortage(verdict)]


def _verdict(record: Mapping[str, Any]) -> Verdict:
    given = {name: record[name] for name in _FIELDS if record.get(name) is not None}
    resource = record.get("resource")
    return Verdict(Status.OOM, resource=Resource(resource) if resource else None, **given)
