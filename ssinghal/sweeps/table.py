"""The table of a sweep: a line per board, release, placement and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssinghal.render.tables import aligned
from ssinghal.sweeps.parts import PartResult, PlacedCounts

_HEADER = ("board", "ttnn", "placement", "dtype", "cases", "fits", "oom", "other", "taken", "probed", "not run", "run")


def lines(results: Sequence[PartResult]) -> Iterator[str]:
    """Yields the table of the parts that have a run or did not start, each with a line of sums, and a line for each fault."""
    rows: list[Sequence[str]] = [_HEADER]
    for result in (result for result in results if result.run or not result.fault):
        head, run = [result.board, result.ttnn], result.run or "not started"
        rows += [[*head, *where, *_cells(counts), run] for where, counts in result.rows.items()]
        if len(result.rows) > 1:
            rows.append([*head, "all", "", *_cells(total(result)), run])
    if len(rows) > 1:
        yield from aligned(rows, (0, 1, 2, 3, len(_HEADER) - 1))
    for result in results:
        if result.fault:
            yield f"{result.board}, ttnn {result.ttnn or 'not installed'}: {result.fault}"


def interruption(results: Sequence[PartResult], *, fresh: bool) -> str:
    """Returns a line on a sweep that was interrupted: the cases that it did not reach, and what completes it; empty if there
    are none. ``fresh``: whether it takes no answers of earlier runs, as the command that completes it must."""
    totals = [total(result) for result in results]
    left, cases = sum(counts.unreached for counts in totals), sum(counts.cases for counts in totals)
    command = "the same command without --fresh" if fresh else "the same command"
    return f"interrupted: {left:,} of {cases:,} cases were not run; {command} completes it" if left else ""


def total(result: PartResult) -> PlacedCounts:
    """Returns the sums over all placements and dtypes of a part."""
    return PlacedCounts(
        **{name: sum(getattr(counts, name) for counts in result.rows.values()) for name in vars(PlacedCounts())}
    )


def _cells(counts: PlacedCounts) -> list[str]:
    numbers = (counts.cases, counts.fits, counts.oom, counts.other, counts.taken, counts.probed, counts.unreached)
    return [f"{number:,}" for number in numbers]
