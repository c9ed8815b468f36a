"""A timeline as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.errors import cut
from ssinghal.release_matrix.matrix import CaseChange, MatrixRow, ReleaseStep, Timeline, needs_bytes, room_bytes
from ssinghal.render.tables import aligned, status_columns

ID_LIMIT = 60
MESSAGE_LIMIT = 80
MAX_NUMBERS = 2  # of one change


def lines(timeline: Timeline, *, everything: bool = False) -> Iterator[str]:
    """Yields the outcomes of each release, the differences between neighbours, then a row for each case that changed, or for
    each case if ``everything``."""
    where = f"{timeline.device_mode} {timeline.board}"
    yield f"{_cases(len(timeline.rows))} on {where}, ttnn {', '.join(timeline.versions)}; {timeline.numerics}"
    yield from aligned(outcome_rows(timeline))
    yield from map(step_line, timeline.steps)
    yield from (f"note: {note}" for note in timeline.notes)
    shown = timeline.rows if everything else timeline.changed
    if shown:
        yield ""
        yield from _table(timeline.versions, shown)
    same = len(timeline.rows) - len(timeline.changed)
    if same and not everything:
        yield f"{_cases(same)} unchanged"


def outcome_rows(timeline: Timeline) -> list[list[str]]:
    """Returns a header, then a row for each release: cases by outcome, and the address where its L1 starts."""
    columns = status_columns(outcome for counts in timeline.outcomes for outcome in counts)
    header = ["ttnn", *(f"{status} {resource}" if resource else status for status, resource in columns), "L1 base B"]
    rows = [header]
    for group, counts in zip(timeline.groups, timeline.outcomes, strict=True):
        base = group.device.l1_base_bytes
        cells = [f"{counts[column]:,}" if counts[column] else "" for column in columns]
        rows.append([group.setting.ttnn, *cells, f"{base:,}" if base else ""])
    return rows


def step_line(step: ReleaseStep) -> str:
    """Returns one line for a pair of releases: the changes of cases, then differences that are no change of a case."""
    parts = [", ".join(f"{count:,} {kind}" for kind, count in step.counts.items() if count) or "no change"]
    moves = [
        f"{what} by {moved:+,} B ({before:,} → {after:,})"
        for what, (before, after), moved in (
            ("L1 base moved", step.l1_base_bytes, step.l1_base_moved_bytes),
            ("DRAM banks changed", step.dram_bank_bytes, step.dram_bank_moved_bytes),
        )
        if moved
    ]
    if moves:
        alone = f": {_cases(step.alone)} differ{'s' * (step.alone == 1)} by that alone" if step.alone else ""
        parts.append(", ".join(moves) + alone)
    if step.other_kind:
        parts.append(f"{_cases(step.other_kind)} with program buffers of another kind and the same bytes")
    return f"{step.before} → {step.after}: {'; '.join(parts)}"


def cell(record: Record) -> str:
    """Returns one outcome in a few words: the resource that ran out with need and room, else the status and the reason."""
    if record.status is Status.FITS:
        return f"{record.status}, leak" if record.left_allocated else str(record.status)
    if not record.is_oom:
        return f"{record.status}: {_one_line(record.message, MESSAGE_LIMIT)}" if record.message else str(record.status)
    needs, room = needs_bytes(record), room_bytes(record)
    numbers = "" if needs is None else f" {needs:,}" + (f" of {room:,} B" if room is not None else " B")
    return f"{record.status} {record.resource or ''}{numbers}"


def change_text(change: CaseChange, limit: int = MAX_NUMBERS) -> str:
    numbers = change.change.numbers_text(limit)
    return f"{change.kind} {change.after}" + (f" ({numbers})" if numbers else "")


def _table(versions: Sequence[str], rows: Iterable[MatrixRow]) -> list[str]:
    """Returns a row for each case: its outcome on each release, then its changes."""
    table = [["case", *versions, "change"]]
    for row in rows:
        changes = "; ".join(map(change_text, row.changes))
        table.append([f"{row.first.op} {_one_line(row.first.id, ID_LIMIT)}", *map(cell, row.records), changes])
    return aligned(table, left=(0, len(versions) + 1))


def _one_line(text: str, limit: int) -> str:
    return cut(" ".join(text.split()), limit)


def _cases(count: int) -> str:
    return f"{count:,} case{'' if count == 1 else 's'}"
