"""Rewrites of convolutions: padding done within them, and chunks of frames joined. Device-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ssinghal.capture.trace import Step, Trace, Value
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import makers, readers, with_steps

CONVOLUTIONS = frozenset(f"aten.conv{dims}d.{kind}" for dims in (1, 2, 3) for kind in ("default", "padding"))
_PADDING = frozenset(name for name in CONVOLUTIONS if name.endswith(".default"))  # told how much in numbers
FRAMES = 2  # the dim of [N, C, D, H, W]


def pad_into_convolution(trace: Trace) -> Trace:
    """Padding that the convolution after it does by itself: zeros on both sides alike, and of volumes the copied edges of each
    frame (TTNN's conv3d has the mode), whose frames before the first are still put there."""
    read, made = readers(trace), makers(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, conv in enumerate(trace.steps):
        if conv.overload not in _PADDING:
            continue
        source, weight = conv.operands["input"], trace.values[conv.operands["weight"]]
        before = made.get(source)
        if before is None or read[source] != [number] or any(_numbers(conv.args.get("padding", 0))):
            continue
        pad = trace.steps[before]
        if pad.overload != "aten.pad.default":
            continue
        dims, given = len(weight.shape) - 2, pad.args["pad"]
        pairs = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
        sides = [*pairs, *[(0, 0)] * (dims - len(pairs))][::-1]
        if len(trace.values[source].shape) != dims + 2 or len(sides) != dims or min(given, default=0) < 0:
            continue  # of channels, or a cut
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
    """The pad of frames, and the convolution that copies the edges within them."""
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
    """Frames ``start`` to ``end`` of the value ``base``, made by ``steps``."""

    base: int
    start: int
    end: int
    steps: frozenset[int]


def whole_convolution(trace: Trace) -> Trace:
    """One convolution in place of several over chunks of frames that are joined afterwards: models cut them for the memory of
    other devices, and the chunks live beside the whole."""
    read = readers(trace)
    ranges: dict[int, _Range] = {}
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        for value, part in zip(step.results, _ranges(trace, ranges, number), strict=False):
            if part is not None:
                ranges[value] = part
        if step.overload == "aten.cat.default" and step.args.get("dim", 0) == FRAMES:
            changed |= _joined(trace, read, ranges, number)
    return with_steps(trace, changed)


def _ranges(trace: Trace, ranges: Mapping[int, _Range], number: int) -> list[_Range | None]:
    """The results that are ranges of frames of one value."""
    step = trace.steps[number]
    name = step.overload.split(".")[1]
    if name in ("chunk", "split", "split_with_sizes", "slice") and step.args.get("dim", 0) == FRAMES:
        source = step.inputs[0]
        frames = trace.values[source].shape[FRAMES]
        whole = ranges.get(source, _Range(source, 0, frames, frozenset()))
        if step.args.get("step", 1) != 1:
            return []
        start = step.args.get("start", 0) or 0
        at = whole.start + (max(0, start + frames) if start < 0 else min(start, frames))
        parts: list[_Range | None] = []
        for result in step.results:
            size = trace.values[result].shape[FRAMES]
            parts.append(_Range(whole.base, at, at + size, whole.steps | {number}))
            at += size
        return parts
    if name == "cat" and step.args.get("dim", 0) == FRAMES:
        known = [ranges.get(value) for value in step.inputs]
        parts = [part for part in known if part is not None]
        if len(parts) == len(known) and _consecutive([(p.base, p.start, p.end) for p in parts if p is not None]):
            steps = frozenset().union(*(p.steps for p in parts if p is not None), {number})
            first, last = parts[0], parts[-1]
            assert first is not None
            assert last is not None
            return [_Range(first.base, first.start, last.end, steps)]
    return []


def _consecutive(parts: Sequence[tuple[int, int, int]]) -> bool:
    return all(a[0] == b[0] and a[2] == b[1] for a, b in pairwise(parts))


def _joined(trace: Trace, read: Mapping[int, list[int]], ranges: Mapping[int, _Range], number: int) -> dict[int, list[Step]]:
    """A concat of convolutions whose windows of frames follow each other without a gap."""
    made = makers(trace)
    step = trace.steps[number]
    convs = [
        made[value] for value in step.inputs if value in made and trace.steps[made[value]].overload == "aten.conv3d.default"
    ]
    if len(convs) != len(step.inputs) or len(convs) < 2:
        return {}
    calls = [trace.steps[n] for n in convs]
    first = calls[0]
    alike = all(c.args == first.args and c.inputs[1:] == first.inputs[1:] and read[c.results[0]] == [number] for c in calls)
    parts = [ranges.get(c.inputs[0]) for c in calls]
    stride, padding, dilation = (_numbers(first.args.get(name, usual))[0] for name, usual in _ALONG_FRAMES.items())
    if not alike or stride != 1 or padding or any(part is None for part in parts):
        return {}
    reach = dilation * (trace.values[first.inputs[1]].shape[2] - 1)
    known = [part for part in parts if part is not None]
    frames = trace.values[known[0].base].shape[FRAMES]
    windows = [(part.base, part.start, part.end - reach) for part in known]
    if not _consecutive(windows) or known[0].start or known[-1].end != frames:
        return {}
    gone = frozenset().union(*(part.steps for part in known)) | set(convs)
    outside = {value for n in gone for value in trace.steps[n].results if not set(read[value]) <= gone | {number}}
    if outside:
        return {}
    whole = replace(first, operands={**first.operands, "input": known[0].base}, results=step.results)
    return {**{n: [] for n in gone}, number: [whole]}
