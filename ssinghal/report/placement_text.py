"""The placement view as text for a terminal, and as a Markdown document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssinghal.errors import cut
from ssinghal.render.markdown import Markup, Number, code, table, text
from ssinghal.render.tables import aligned
from ssinghal.report.placement_view import ModelPlacements, Placed, PlacementView, Stopper, buffer_of, is_sharded_l1
from ssinghal.runs.reader import Run

SHOWN = 3  # calls that fit in DRAM alone
CALL_CHARS = 120


def summary(views: Sequence[PlacementView]) -> list[str]:
    """Returns the lines with which ``ssinghal run --placements`` ends."""
    return [line for view in views for model in view.models for line in _summary(view, model)]


def _summary(view: PlacementView, model: ModelPlacements) -> Iterator[str]:
    yield f"{model.name}: {model.calls:,} calls in {len(model.rows):,} cases; how many fit where, and what stops the others:"
    yield from (f"  {line}" for line in aligned(_counts(view, model)))
    if words := in_words(view.memories, model):
        yield f"  {words}"
    yield from (f"    {calls:,} x {cut(row.text, CALL_CHARS)}: {row.reasons}" for row, calls in model.dram_alone[:SHOWN])


def in_words(memories: Sequence[str], model: ModelPlacements) -> str:
    """Returns how many calls fit in L1 in shards, and how many in DRAM alone, as far as ``memories`` have such placements."""
    words = []
    if any(map(is_sharded_l1, memories)):
        words.append(f"{model.sharded:,} of {model.calls:,} calls fit in L1 sharded")
    if len(set(map(buffer_of, memories))) > 1:
        alone = sum(calls for _, calls in model.dram_alone)
        of = "" if words else f" of {model.calls:,} calls"
        words.append(f"{alone:,}{of} fit nowhere but DRAM{':' if alone else ''}")
    return "; ".join(words)


def _counts(view: PlacementView, model: ModelPlacements) -> list[list[str]]:
    stopped = {memory: model.stopped(memory) for memory in view.memories}
    shown = [stopper for stopper in Stopper if any(counts[stopper] for counts in stopped.values())]
    rows = [["placement", "fit", *map(str, shown), "least known headroom per core"]]
    for memory in view.memories:
        counts = [f"{count:,}" if count else "" for count in (stopped[memory][stopper] for stopper in shown)]
        least = model.least_room(memory)
        rows.append([memory, f"{model.fitting(memory):,}", *counts, least.room if least else ""])
    return rows


def document(run: Run, views: Sequence[PlacementView]) -> str:
    """Returns the Markdown of the placement view: for each model its counts, then all of its calls."""
    parts = [f"# Placements of run {code(run.id)}\n", HEAD]
    for view in views:
        parts.append(f"## {text(view.title)}\n")
        for model in view.models:
            header, *rows = _counts(view, model)
            cells = [[code(row[0]), *map(Number, row[1:])] for row in rows]
            words = in_words(view.memories, model).rstrip(":")
            parts += [
                f"### {text(model.name)}\n",
                table(header, cells),
                *([f"{text(words)}.\n"] if words else []),
                calls_table(view, model),
            ]
    return "\n".join(parts)


HEAD = """A call fits with the headroom that its cell states: the bytes of each core's L1 that neither tensors nor program
buffers take at the peak of the call. It is unknown where intermediate tensors were in L1, where TTNN chooses the program by the
L1 that is free (matrix products, convolutions, norms of rows, roll), and without a capture. Another cell states what stops the
call: its tensors, its program buffers, the L1_SMALL region, or a rule of the operator.
"""


def calls_table(view: PlacementView, model: ModelPlacements) -> Markup:
    """Returns a table of all calls of a model, with a column for each placement."""
    rows = [[calls, code(row.text), *(_cell(row.placed.get(memory)) for memory in view.memories)] for row, calls in model.rows]
    return table(["calls", "call", *view.memories], rows)


def _cell(placed: Placed | None) -> Markup | None:
    if placed is None:
        return None
    return (
        text(placed.reason)
        if placed.stopper
        else Markup("**fits**" if placed.headroom_bytes is None else f"**fits**, {placed.room}")
    )
