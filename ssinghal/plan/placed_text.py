"""Formats placements as text: what stays in L1, what is moved, and a table of the steps by module."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ssinghal.core.nouns import counted
from ssinghal.errors import cut
from ssinghal.plan.placed_result import Moved, NotChosen, Nowhere, PlacementReport, ResultPlace, Share, StepPlacement
from ssinghal.render.tables import aligned, percent

WIDTH = 120  # columns of a terminal
RULES_SHOWN = 2  # that stop better placements of a step
LIVE_SHOWN = 8  # values in L1 at a step that has no placement
_HEADER = ("step", "operator", "results in", "DRAM B", "act. B", "reshard B", "L1 peak B", "free B")
_INDENT = " " * 6


def placement_lines(report: PlacementReport) -> list[str]:
    """Formats the answer in a few lines, then the table of the steps."""
    out = [*facts(report)]
    if report.moved is not None:
        out += _traffic(report.moved, report.port, report.ratio)
    out += _failed_runs(report)
    if report.nowhere is not None:
        out += _live_lines(report.nowhere)
    return [text for line in out for text in wrapped(line)] + table_lines(report.steps)


def facts(report: PlacementReport) -> Iterator[str]:
    """Yields what is known of placements, a sentence each: of those whose run failed, or that there are none, that nothing is
    confirmed. What they move is not among it."""
    if report.nowhere is not None:
        yield from _nowhere_facts(report.nowhere)
    else:
        yield from _found_facts(report)
    runs = len(report.failed_runs) + (report.nowhere is None)
    yield (
        f"search {report.search_s:.1f} s: {counted(report.probes, 'call')} tried alone, {counted(report.states, 'state')};"
        f" {counted(runs, 'run')} of the complete model {report.run_s:.1f} s"
    )


def _found_facts(report: PlacementReport) -> Iterator[str]:
    if not report.confirmed:
        yield "not confirmed: no run of the complete model decided that it fits; shares are what the search expected"
    steps, calls = report.steps_in_l1
    yield (
        f"results stay in L1: {_share(report.bytes_in_l1)} of their bytes, {steps:,} of {calls:,} steps that make calls"
        f" ({_share(report.steps_in_l1)})"
    )
    step = next((step for step in report.steps if step.number == report.peak_step), None)
    if step is not None:
        requested = f"; {report.headroom_bytes:,} B were to stay free" if report.headroom_bytes else ""
        yield (
            f"L1 peak {report.peak_bytes:,} of {report.l1_bank_bytes:,} B per core with program buffers,"
            f" {report.least_headroom_bytes:,} B free, at step {step.number} {step.operator} in {step.at or '(top)'}{requested}"
        )
    yield _quality(report)
    moved = report.moved
    if moved is not None and moved.dram_bytes + moved.resharded_bytes != report.cost_bytes:
        yield (
            f"the search expected {report.cost_bytes:,} B to be moved and resharded; the run moved and resharded"
            f" {moved.dram_bytes + moved.resharded_bytes:,} B"
        )


def _traffic(moved: Moved, port: Moved | None, ratio: float | None) -> Iterator[str]:
    beside = f", {ratio:.3f} of port's {port.dram_bytes:,} B" if port is not None and ratio is not None else ""
    yield f"through DRAM {moved.dram_bytes:,} B{beside}"
    for name, one in (("", moved), ("port: ", port)):
        if one is not None:
            yield (
                f"  {name}weights {one.weights_bytes:,}, inputs {one.inputs_bytes:,}, results {one.results_bytes:,},"
                f" activations written and read {one.activations_bytes:,} B"
            )
    other = f" (port: {port.resharded_bytes:,} B, {port.layout_changes:,})" if port is not None else ""
    yield f"resharded {moved.resharded_bytes:,} B, {counted(moved.layout_changes, 'change')} of layout or shards{other}"


def _share(part: Share) -> str:
    return percent(part[0] / part[1]) if part[1] else "none"


def _quality(report: PlacementReport) -> str:
    if report.exact:
        return "proven by the search: no placements of its candidates move less"
    if report.bound_bytes == report.cost_bytes:
        return "proven by the search: no placements of its candidates move fewer bytes; some may change fewer layouts"
    if not report.bound_bytes:
        return "not proven: other placements of the candidates may move less"
    return (
        f"not proven: placements of the candidates that move less may exist, down to {report.bound_bytes:,} B"
        f" (these: {report.cost_bytes:,} B)"
    )


def _failed_runs(report: PlacementReport) -> Iterator[str]:
    if report.failed_runs:
        yield f"runs of the complete model that failed, and what the search learned: {len(report.failed_runs):,}"
    for run in report.failed_runs:
        message = cut(next(iter(run.message.splitlines()), ""), WIDTH)
        yield f"  step {run.step} {run.operator} in {run.at or '(top)'}: {run.learned}; {message}"


def _nowhere_facts(nowhere: Nowhere) -> Iterator[str]:
    """The step, the limit and the missing bytes are in the message."""
    yield "nothing was run, so nothing is known to fit"
    if nowhere.best:
        yield f"the smallest choice there: {nowhere.best}"
    for reason in nowhere.rejections:
        yield f"rejected: {reason}"
    if not nowhere.exact:
        yield "the search dropped states before this step, so placements that it did not see may exist"


def _live_lines(nowhere: Nowhere) -> Iterator[str]:
    live = sorted((x for x in nowhere.live if x.l1_bytes), key=lambda x: (-x.l1_bytes, x.value))
    if live:
        yield "largest values in L1 then, of each core:"
    for value in live[:LIVE_SHOWN]:
        yield f"  {value.name or f'value {value.value}'}: {value.memory}, {value.l1_bytes:,} B"


def placements_table(reports: Iterable[tuple[str, PlacementReport]]) -> list[str]:
    """Formats named placements side by side; those whose run failed have no figures."""
    rows = [["board, policy", "stays in L1", "through DRAM B", "of port", "resharded B", "L1 peak B", "free B"]]
    for name, report in reports:
        moved, ratio = report.moved, report.ratio
        figures = ["–"] * (len(rows[0]) - 1)
        if moved is not None:
            figures = [
                _share(report.bytes_in_l1),
                f"{moved.dram_bytes:,}",
                "–" if ratio is None else f"{ratio:.3f}",
                f"{moved.resharded_bytes:,}",
                f"{report.peak_bytes:,}",
                f"{report.least_headroom_bytes:,}",
            ]
        rows.append([name, *figures])
    return aligned(rows)


# The table -------------------------------------------------------------------------------------------------------------------


def table_lines(steps: Iterable[StepPlacement]) -> list[str]:
    """Formats the steps that make calls, a line for each with what it moves, then its settings, its moves, and what stops
    better placements. Blocks of a model that are alike in everything are listed once."""
    blocks = list(_blocks([step for step in steps if step.calls], 0))
    parents = {_parent(step.at) for _, block in blocks for step in block}
    rows = [_row(step, parents) for _, block in blocks for step in block]
    if not rows:
        return []
    header, *cells = aligned(_cut_to_width([_HEADER, *rows]), left=(0, 1, 2))
    out, module, line = [header], None, iter(cells)
    for alike, block in blocks:
        for number, step in enumerate(block):
            owner = _owner(step.at, parents)
            if owner != module or (alike and number == 0):
                module = owner
                out += wrapped((owner or "(top)") + (f"  [{_alike(alike)}]" if alike and number == 0 else ""))
            out += [next(line), *(text for words in _words(step) for text in wrapped(_INDENT + words))]
    return out


def _blocks(steps: Sequence[StepPlacement], depth: int) -> Iterator[tuple[tuple[str, ...], list[StepPlacement]]]:
    """Yields runs of steps; with the names of the modules, the first among them, that have exactly these steps one after the
    other. ``depth``: how many parts of the modules' names all ``steps`` have in common."""
    groups = [(name, list(group)) for name, group in groupby(steps, lambda step: step.at.split(".")[: depth + 1])]
    while groups:
        name, group = groups.pop(0)
        names = [".".join(name)]
        shape = _signature(group, depth)
        while groups and len(group) > 1 and groups[0][0][:-1] == name[:-1] and _signature(groups[0][1], depth) == shape:
            names.append(".".join(groups.pop(0)[0]))
        if len(names) > 1:
            yield tuple(names), group
        elif any(len(step.at.split(".")) > depth + 1 for step in group):
            yield from _blocks(group, depth + 1)
        else:
            yield (), group


def _signature(steps: Iterable[StepPlacement], depth: int) -> list[StepPlacement]:
    """Returns the steps without what names them: their numbers, and the module down to ``depth``."""
    return [replace(step, number=0, at=".".join(step.at.split(".")[depth + 1 :])) for step in steps]


def _alike(names: Sequence[str]) -> str:
    return f"the same {len(names)} times: {', '.join(names)}"


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _owner(module: str, parents: Container[str]) -> str:
    """Returns the module under which a row is listed: the one that has others with rows, else the one around it."""
    return module if module in parents else _parent(module)


def _row(step: StepPlacement, parents: Container[str]) -> tuple[str, ...]:
    own = "" if step.at in parents else step.at.rpartition(".")[2]
    return (
        f"{step.number:4}",
        " ".join(dict.fromkeys(filter(None, [own, step.operator]))),
        results_text(step.results),
        f"{step.dram_bytes:,}",
        _figure(step.activations_bytes),
        f"{step.resharded_bytes:,}",
        _figure(step.l1_peak_bytes),
        _figure(step.headroom_bytes),
    )


def _figure(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _cut_to_width(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Cuts names and memories so that the table is as wide as a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    free = WIDTH - widths[0] - sum(widths[3:]) - 2 * (len(widths) - 1)
    name = min(widths[1], max(free - widths[2], free // 3))
    memory = free - name
    return [(row[0], _ended(row[1], name), _ended(row[2], memory), *row[3:]) for row in rows]


def _ended(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def results_text(results: Sequence[ResultPlace]) -> str:
    """Returns where results are: each memory once, with how many of them are there.

    >>> results_text([])
    '–'
    """
    places = [result.memory for result in results]
    counts = {memory: places.count(memory) for memory in places}
    return ", ".join(memory if count == 1 else f"{count} x {memory}" for memory, count in counts.items()) or "–"


def _words(step: StepPlacement) -> Iterator[str]:
    """Yields what the row has no space for."""
    if how := settings_and_moves(step):
        yield how
    if why := why_not_better(step):
        yield f"not better: {why}"


def settings_and_moves(step: StepPlacement) -> str:
    return "; ".join(filter(None, [step.settings, *step.moves]))


def why_not_better(step: StepPlacement) -> str:
    """Returns what stops calls of a step that move less, "" where it moves nothing but the model's own bytes, to L1."""
    if not step.resharded_bytes and step.activations_bytes == 0 and all(result.l1_bytes for result in step.results):
        return ""
    cheaper = [one for one in step.not_chosen if one.saved_bytes is not None and one.saved_bytes > 0]
    rules = list(dict.fromkeys(one.reason for one in step.not_chosen if one.saved_bytes is None))
    parts = [_alternative(cheaper[0])] if cheaper else []
    if rules:
        left = len(rules) - RULES_SHOWN
        more = [f"{left} more rule{'s' if left > 1 else ''}"] if left > 0 else []
        parts.append("others are rejected: " + "; ".join([*(cut(rule, WIDTH) for rule in rules[:RULES_SHOWN]), *more]))
    return "; ".join(parts) or "none of the ways to call it that were tried moves less here"


def _alternative(one: NotChosen) -> str:
    if one.over_bytes is None:
        return f"{one.choice} would fit and move {one.saved_bytes:,} B less here, but is no part of the best plan found"
    return f"{one.choice} would move {one.saved_bytes:,} B less, but {one.reason}"


def wrapped(text: str) -> list[str]:
    """Breaks a line at the width of a terminal; what follows is indented by two more columns than the line."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [text]
