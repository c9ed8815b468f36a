"""Rewrites convolutions: padding moves into them, and chunks of frames are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ssinghal.capture.trace import Step, Trace, Value
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import Graph, with_steps

CONVOLUTIONS = frozenset(f"aten.conv{dims}d.{kind}" for dims in (1, 2, 3) for kind in ("default", "padding"))
_PADDING = frozenset(name for name in CONVOLUTIONS if name.endswith(".default"))  # those that pad by numbers
FRAMES = 2  # the dim of [N, C, D, H, W]


def pad_into_convolution(trace: Trace) -> Trace:
    """Moves padding into the convolution after it: zeros that are equal on both sides, and copied edges of each frame.

    TTNN's conv3d has a mode for the latter; padding before the first frame stays a separate call.
    """
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, conv in enumerate(trace.steps):
        if conv.overload not in _PADDING:
            continue
        source, weight = conv.operands["input"], trace.values[conv.operands["weight"]]
        before = graph.creator_for(number, source)
        if before is None or any(_numbers(conv.args.get("padding", 0))):
            continue
        pad = trace.steps[before]
        if pad.overload != "aten.pad.default":
            continue
        dims, sizes = len(weight.shape) - 2, pad.args["pad"]
        pairs = [(sizes[i], sizes[i + 1]) for i in range(0, len(sizes), 2)]
        sides = [*pairs, *[(0, 0)] * (dims - len(pairs))][::-1]
        if len(trace.values[source].shape) != dims + 2 or len(sides) != dims or min(sizes, default=0) < 0:
            continue  # it pads channels, or cuts
        mode = pad.args.get("mode", "constant")
        if mode == "constant" and not pad.args.get("value") and all(a == b for a, b in sides):
            padding = [a for a, _ in sides]
            operands = {**conv.operands, "input": pad.operands["self"]}
            changed[before] = []
            changed[number] = [replace(conv, operands=operands, args={**conv.args, "padding": padding})]
        elif mode == "replicate" and dims == 3 and weight.is_resident and all(a == b for a, b in sides[1:]):
            changed |= _frames_only(trace, before, number, sides, values)
    return with_steps(trace, changed, values)


def _numbers(value: int | Sequence[int]) -> Sequence[int]:
    return (value,) if isinstance(value, int) else value


def _frames_only(
    trace: Trace, before: int, number: int, sides: Sequence[tuple[int, ...]], values: list[Value]
) -> dict[int, list[Step]]:
    """Returns the padding of frames, and the convolution that copies the edges within them."""
    pad, conv = trace.steps[before], trace.steps[number]
    padding = [0, *(a for a, _ in sides[1:])]
    args = {**conv.args, "padding": padding, f"{EXTRAS}padding_mode": "replicate"}
    if not any(sides[0]):
        operands = {**conv.operands, "input": pad.operands["self"]}
        return {before: [], number: [replace(conv, operands=operands, args=args)]}
    padded = trace.values[pad.results[0]]
    image = trace.values[pad.operands["self"]].shape
    framed = len(trace.values) + len(values)
    values.append(replace(padded, shape=(*padded.shape[:-2], *image[-2:])))
    frames = replace(pad, args={**pad.args, "pad": [0, 0, 0, 0, *sides[0]]}, results=(framed,))
    return {before: [frames], number: [replace(conv, operands={**conv.operands, "input": framed}, args=args)]}


_ALONG_FRAMES = {"stride": 1, "padding": 0, "dilation": 1}


class _Range(NamedTuple):
    """Frames ``start`` to ``end`` of the value ``base``, created by ``steps``."""

    base: int
    start: int
    end: int
    steps: frozenset[int]


def whole_convolution(trace: Trace) -> Trace:
    """Replaces convolutions over chunks of frames that are joined afterwards by one convolution.

    Models cut frames into chunks for the memory of other devices; here the chunks need memory in addition to the complete map.
    """
    graph = Graph(trace)
    ranges: dict[int, _Range] = {}
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        ranges.update(zip(step.results, _ranges(graph, ranges, number), strict=False))
        if step.overload == "aten.cat.default" and step.args.get("dim", 0) == FRAMES:
            changed |= _joined_convolution(graph, ranges, number)
    return with_steps(trace, changed)


def _ranges(graph: Graph, ranges: Mapping[int, _Range], number: int) -> list[_Range]:
    """Returns the ranges of frames of one value that a step cuts or joins; none for any other step."""
    step = graph.steps[number]
    name = step.overload.split(".")[1]
    if step.args.get("dim", 0) != FRAMES:
        return []
    if name in ("chunk", "split", "split_with_sizes", "slice") and step.args.get("step", 1) == 1:
        return _cut_ranges(graph, ranges, number)
    parts = _known_ranges(ranges, step.inputs) if name == "cat" else None
    if not parts or not _consecutive([(part.base, part.start, part.end) for part in parts]):
        return []
    return [_Range(parts[0].base, parts[0].start, parts[-1].end, frozenset({number}).union(*(p.steps for p in parts)))]


def _cut_ranges(graph: Graph, ranges: Mapping[int, _Range], number: int) -> list[_Range]:
    step = graph.steps[number]
    source = step.inputs[0]
    frames = graph.values[source].shape[FRAMES]
    source_range = ranges.get(source, _Range(source, 0, frames, frozenset()))
    start = step.args.get("start", 0) or 0
    at = source_range.start + (max(0, start + frames) if start < 0 else min(start, frames))
    parts: list[_Range] = []
    for result in step.results:
        end = at + graph.values[result].shape[FRAMES]
        parts.append(_Range(source_range.base, at, end, source_range.steps | {number}))
        at = end
    return parts


def _known_ranges(ranges: Mapping[int, _Range], values: Iterable[int]) -> list[_Range] | None:
    """Returns the ranges of frames of ``values``; None where one of them is no such range."""
    try:
        return [ranges[value] for value in values]
    except KeyError:
        return None


def _consecutive(parts: Sequence[tuple[int, int, int]]) -> bool:
    """Returns whether each (base, start, end) starts where the one before it ends."""
    return all(a[0] == b[0] and a[2] == b[1] for a, b in pairwise(parts))


def _joined_convolution(graph: Graph, ranges: Mapping[int, _Range], number: int) -> dict[int, list[Step]]:
    """Returns one convolution in place of those that step ``number`` joins, if their outputs follow each other without a gap.

    With a kernel of 3 frames, cat([conv(x[:, :, 0:6]), conv(x[:, :, 4:10])], 2) is conv(x[:, :, 0:10]): the input frames start
    to end give the outputs start to end - 2.
    """
    step = graph.steps[number]
    convs = [n for value in step.inputs if (n := _convolution_for(graph, number, value)) is not None]
    calls = [graph.steps[n] for n in convs]
    parts = _known_ranges(ranges, (call.inputs[0] for call in calls))
    if len(convs) != len(step.inputs) or len(convs) < 2 or not parts:
        return {}
    first = calls[0]
    stride, padding, dilation = (_numbers(first.args.get(name, usual))[0] for name, usual in _ALONG_FRAMES.items())
    equal = all(call.args == first.args and call.inputs[1:] == first.inputs[1:] for call in calls)
    if not equal or stride != 1 or padding:
        return {}
    overlap = dilation * (graph.values[first.inputs[1]].shape[2] - 1)
    covers_all = not parts[0].start and parts[-1].end == graph.values[parts[0].base].shape[FRAMES]
    if not covers_all or not _consecutive([(part.base, part.start, part.end - overlap) for part in parts]):
        return {}
    removed = frozenset(convs).union(*(part.steps for part in parts))
    if any(not set(graph.readers[value]) <= removed | {number} for n in removed for value in graph.steps[n].results):
        return {}
    joined = replace(first, operands={**first.operands, "input": parts[0].base}, results=step.results)
    return {**{n: [] for n in removed}, number: [joined]}


def _convolution_for(graph: Graph, reader: int, value: int) -> int | None:
    """Returns the conv3d that creates ``value`` for the step ``reader`` alone."""
    number = graph.creator_for(reader, value)
    return number if number is not None and graph.steps[number].overload == "aten.conv3d.default" else None
