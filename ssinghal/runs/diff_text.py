"""Formats a comparison of two runs for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssinghal.core.record import Record
from ssinghal.errors import cut
from ssinghal.render.markdown import code, table, text
from ssinghal.runs.change_kinds import TITLES, ChangeKind
from ssinghal.runs.diff import Change, Changes
from ssinghal.runs.placements import by_memories

SHOWN = 20  # changes of a kind, by default
MAX_NUMBERS = 6  # of one change
VERDICT_LIMIT = 200
ID_LIMIT = 150
MAX_MODELS = 3


def lines(changes: Changes, shown: int | None = SHOWN) -> Iterator[str]:
    """Yields what was compared, how many cases changed, notes, then the changes by kind. ``shown``: of each kind; None: all."""
    yield f"{changes.before} → {changes.after}: {heading(changes)}"
    yield from (f"  {head}" for head in changes.heads)
    yield from (f"  note: {note}" for note in changes.notes)
    for kind, listed in _by_kind(changes):
        yield f"{kind} ({len(listed):,}): {TITLES[kind]}"
        yield from (f"  {_line(change)}" for change in listed[:shown])
        if more := len(listed) - len(listed[:shown]):
            yield f"  … and {more:,} more"
    yield from _placement_lines(changes, shown)


def _placement_lines(changes: Changes, shown: int | None) -> Iterator[str]:
    """Yields how many calls fit in which memory, and those that fit in one of them alone."""
    for comparison in by_memories(changes.placements):
        yield f"placements: {comparison}"
        for memory, failing in comparison.fits_only.items():
            if failing:
                yield f"fits in {memory} only ({len(failing):,}):"
                yield from (f"  {_failing_line(record)}" for record in failing[:shown])
                if more := len(failing) - len(failing[:shown]):
                    yield f"  … and {more:,} more"


def _failing_line(record: Record) -> str:
    parts = cut(record.sentence, VERDICT_LIMIT), _callers(record.calls, record.callers)
    return " ".join(f"{record.op} {cut(record.id, ID_LIMIT)} ({record.key}): {'; '.join(filter(None, parts))}".split())


def markdown(changes: Changes, shown: int | None = None) -> str:
    """Returns the same as a document with tables. Texts of others (ids, messages) are escaped."""
    parts = [f"## {code(changes.before)} → {code(changes.after)}\n"]
    parts.append("".join(f"- {text(line)}\n" for line in (heading(changes), *changes.heads)))
    if changes.notes:
        parts.append("### Notes\n\n" + "".join(f"- {text(note)}\n" for note in changes.notes))
    for kind, listed in _by_kind(changes):
        parts.append(f"### {kind} ({len(listed):,}): {TITLES[kind]}\n")
        rows = [_row(change) for change in listed[:shown]]
        if rows:
            parts.append(table(["operator", "case", "key", "before", "after", "bytes", "made by"], rows))
        if more := len(listed) - len(rows):
            parts.append(f"… and {more:,} more\n")
    return "\n".join([*parts, *_placement_parts(changes, shown)])


def _placement_parts(changes: Changes, shown: int | None) -> Iterator[str]:
    for comparison in by_memories(changes.placements):
        yield f"### Placements\n\n- {text(str(comparison))}\n"
        for memory, failing in comparison.fits_only.items():
            if rows := [_failing_row(record) for record in failing[:shown]]:
                yield f"Fits in {memory} only ({len(failing):,}):\n"
                yield table(["operator", "case", "key", "verdict", "made by"], rows)
            if more := len(failing) - len(failing[:shown]):
                yield f"… and {more:,} more\n"


def _failing_row(record: Record) -> list[str]:
    case = [code(record.op), code(cut(record.id, ID_LIMIT)), code(record.key)]
    return [*case, cut(record.sentence, VERDICT_LIMIT), _callers(record.calls, record.callers)]


def markdown_within(changes: Changes, limit_bytes: int) -> str | None:
    """Returns as many changes as fit into ``limit_bytes`` of UTF-8, the rest as counts; None if not even the counts fit."""
    shown = max((*(len(listed) for _, listed in _by_kind(changes)), len(changes.placements)), default=0)
    while len((document := markdown(changes, shown)).encode()) > limit_bytes:
        if not shown:
            return None
        shown //= 2
    return document


def in_short(changes: Changes, kinds: Iterable[ChangeKind] = tuple(ChangeKind)) -> str:
    """Returns the counts, such as ``1 new-oom, 2 grown``, or ``no change``."""
    counts = changes.counts
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds if counts[kind]) or "no change"


def heading(changes: Changes) -> str:
    """Returns what was compared and what came of it, such as ``no change; compared by placement: 7 calls``. ``no change`` only
    says so of cases that both runs have."""
    parts = [in_short(changes)] if changes.cases or changes.found else []
    if calls := len(changes.placements):
        parts.append(f"compared by placement: {calls:,} call{'' if calls == 1 else 's'}")
    return "; ".join(parts) or "nothing in common: no case was compared"


def _by_kind(changes: Changes) -> Iterator[tuple[ChangeKind, list[Change]]]:
    for kind in ChangeKind:
        listed = [change for change in changes.found if change.kind is kind]
        if listed:
            yield kind, listed


def _row(change: Change) -> list[str]:
    verdicts = [cut(verdict, VERDICT_LIMIT) for verdict in (change.before, change.after)]
    case = [code(change.op), code(cut(change.id, ID_LIMIT)), code(change.key)]
    return [*case, *verdicts, change.numbers_text(MAX_NUMBERS), _made_by(change)]


def _made_by(change: Change) -> str:
    return _callers(change.calls, change.models)


def _callers(calls: int, callers: Sequence[str]) -> str:
    """Returns how often which models make the call; empty if none does."""
    if not calls:
        return ""
    more = len(callers) - MAX_MODELS
    models = ", ".join(callers[:MAX_MODELS]) + (f" and {more} more" if more > 0 else "")
    return f"{calls:,} call{'' if calls == 1 else 's'} of {models or 'models'}"


def _line(change: Change) -> str:
    """Returns the change in one line, even if its message has several."""
    verdicts = [cut(verdict, VERDICT_LIMIT) for verdict in (change.before, change.after) if verdict]
    same = len(verdicts) == 2 and verdicts[0] == verdicts[1]
    parts = [verdicts[0] if same else " → ".join(verdicts), change.numbers_text(MAX_NUMBERS), _made_by(change)]
    return " ".join(f"{change.op} {cut(change.id, ID_LIMIT)} ({change.key}): {'; '.join(filter(None, parts))}".split())
