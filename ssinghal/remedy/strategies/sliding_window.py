"""Operators that look at windows of a map, made in pieces of rows with the rows beside them that their windows reach; and
convolutions told into how many slices to cut themselves. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.record import Resource
from ssinghal.core.tensors import TILE_EDGE, BufferType
from ssinghal.operators import named
from ssinghal.operators.convolution import TUNING
from ssinghal.operators.operator_info import pair
from ssinghal.operators.pooling import window_of
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import Params, Rewrite, RewriteBackend, cuts, in_dram
from ssinghal.remedy.strategies.count_search import CountResult, smallest_count
from ssinghal.remedy.strategies.placement import Strategy, StrategyResult, StrategySearch, once
from ssinghal.remedy.trial import Impact, RewriteName, Trial, TrialResult

MAX_SLICES = 256
LOW_BLOCK = TILE_EDGE  # rows of an activation block, the fewest that TTNN takes
MAX_POOL, AVG_POOL, CONVOLUTION, BILINEAR = named("max_pool2d avg_pool2d convolution upsample_bilinear2d")
PROGRAMS = (Resource.CIRCULAR_BUFFER, Resource.CLASH)


# Pools --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowWindow:
    """Result rows ``first`` to ``last`` of a pool along the height: rows ``begin`` to ``end`` of the map, and padding."""

    begin: int
    end: int
    top: int
    bottom: int


def rows_of(first: int, last: int, height: int, *, kernel_size: int, stride: int, padding: int, dilation: int) -> RowWindow:
    """What the windows of a stretch of result rows look at.

    >>> rows_of(0, 2, 8, kernel_size=3, stride=2, padding=1, dilation=1)
    Rows(begin=0, end=4, top=1, bottom=0)
    """
    begin = first * stride - padding
    end = (last - 1) * stride - padding + dilation * (kernel_size - 1) + 1
    return RowWindow(max(begin, 0), min(end, height), max(-begin, 0), max(end - height, 0))


def pooled_rows(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """Each image's result in ``count`` stretches of rows, each with the rows of the map that its windows reach."""
    n, channels, height, width = hand.case.inputs[0]
    window = window_of(hand.attrs)
    along_height = {name: sizes[0] for name, sizes in window.items()}
    made = []
    stretches = [(image, *stretch) for image in range(n) for stretch in cuts(params["rows"], params["count"])]
    for number, (image, first, last) in enumerate(stretches):
        rows = rows_of(first, last, height, **along_height)
        with hand.piece(number):
            starts = [0, 0, (image * height + rows.begin) * width, 0]
            ends = [1, 1, (image * height + rows.end) * width, channels]
            memory = hand.in_memory(BufferType(params["memory"]))
            part = hand.ttnn.slice(hand.tensors[0], starts, ends, memory_config=memory)
            result = getattr(hand.ttnn, hand.case.operator)(
                part,
                batch_size=1,
                input_h=rows.end - rows.begin,
                input_w=width,
                channels=channels,
                kernel_size=list(window["kernel_size"]),
                stride=list(window["stride"]),
                padding=[rows.top, rows.bottom, window["padding"][1], window["padding"][1]],
                **({"dilation": list(window["dilation"])} if hand.case.operator == MAX_POOL else {}),
            )
            hand.free(part)
            if tuple(result.shape)[:2] != (1, 1):  # TTNN cut the piece again, and gives the map unfolded
                result = hand.ttnn.reshape(result, [1, 1, result.shape[0] * result.shape[1] * result.shape[2], channels])
            made.append(in_dram(hand, result))
    return [hand.ttnn.concat(made, dim=2, memory_config=hand.in_memory(BufferType.DRAM))]


def _can_pool_rows(problem: Problem) -> bool:
    """A window over the edge counts padding as zeros only where torch does."""
    attrs = problem.call.attrs
    if problem.info.name == MAX_POOL:
        return True
    plain = problem.info.name == AVG_POOL and not attrs["ceil_mode"] and attrs["divisor_override"] is None
    return plain and (attrs["count_include_pad"] or not any(pair(attrs["padding"])))


def _pool_rows(problem: Problem) -> StrategySearch:
    n, _, *_ = problem.case.inputs[0]
    rows = problem.info.infer(problem.case.inputs, problem.call.attrs)[0][2]
    case = problem.in_dram()

    def trial(count: int) -> Trial:
        how = {"rows": rows, "count": count, "memory": problem.memory.value}
        return replace(problem.trial(case, RewriteName.POOLED_ROWS), params=how)

    counted = yield from smallest_count(trial, rows, first=1 if n > 1 else 2)
    if counted.tried is None:
        return StrategyResult(None, counted.reason)
    pieces = counted.count * n
    return StrategyResult(
        counted.tried, note=f"{pieces} pieces of rows, with the rows that their windows reach; all in DRAM between"
    )


# Bilinear -----------------------------------------------------------------------------------------------------------------


def interpolated_rows(hand: RewriteBackend, params: Params) -> Sequence[Any]:
    """``count`` stretches of the map's rows, each with a row more on either side, which is cut off again afterwards."""
    tensor = hand.tensors[0]
    n, height, width, channels = tuple(tensor.shape)
    down, across = params["scale"]
    made = []
    for number, (first, last) in enumerate(cuts(height, params["count"])):
        begin, end = max(first - 1, 0), min(last + 1, height)
        with hand.piece(number):
            memory = hand.in_memory(BufferType(params["memory"]))
            part = hand.ttnn.slice(tensor, [0, begin, 0, 0], [n, end, width, channels], memory_config=memory)
            wide = hand.ttnn.upsample(part, [down, across], mode="bilinear", memory_config=memory)
            hand.free(part)
            kept = [(first - begin) * down, (last - begin) * down]
            dram = hand.in_memory(BufferType.DRAM)
            starts, ends = [0, kept[0], 0, 0], [n, kept[1], width * across, channels]
            made.append(hand.ttnn.slice(wide, starts, ends, memory_config=dram))
            hand.free(wide)
    return [hand.ttnn.concat(made, dim=1, memory_config=hand.in_memory(BufferType.DRAM))]


def _whole_scale(problem: Problem) -> tuple[int, int] | None:
    (_, _, h, w), (_, _, oh, ow) = problem.case.inputs[0], problem.info.infer(problem.case.inputs, problem.call.attrs)[0]
    return (oh // h, ow // w) if oh % h == 0 and ow % w == 0 else None


def _interpolate_rows(problem: Problem) -> StrategySearch:
    scale, height = _whole_scale(problem), problem.case.inputs[0][2]
    if scale is None:
        return StrategyResult(None, "the scale is no whole number, so rows do not end where pieces do")
    case = problem.in_dram()

    def trial(count: int) -> Trial:
        how = {"scale": list(scale), "count": count, "memory": problem.memory.value}
        return replace(problem.trial(case, RewriteName.INTERPOLATED_ROWS), params=how)

    counted = yield from smallest_count(trial, height)
    note = f"{counted.count} pieces of rows, each with one more on either side; all in DRAM between"
    return StrategyResult(counted.tried, counted.reason, note)


# Convolutions -------------------------------------------------------------------------------------------------------------


def _is_conv2d(problem: Problem) -> bool:
    shapes = problem.case.inputs
    return problem.info.name == CONVOLUTION and len(shapes[0]) == 4 and not problem.call.attrs["transposed"]


def _tuned(problem: Problem, **tuning: Any) -> Case:
    case = problem.in_dram()
    return replace(case, attrs={**case.attrs, **tuning})


def _is_tuned(problem: Problem) -> bool:
    return _is_conv2d(problem) and any(problem.call.attrs[name] != attr.default for name, attr in TUNING.items())


def _is_sliced(problem: Problem) -> bool:
    return _is_conv2d(problem) and ":" in problem.call.attrs["slices"]


def _is_whole(problem: Problem) -> bool:
    return _is_conv2d(problem) and not _is_sliced(problem)


def _untuned(problem: Problem) -> StrategySearch:
    defaults = {name: attr.default for name, attr in TUNING.items()}
    note = "no slice_config and no conv_config, operands in DRAM: TTNN slices as it needs"
    return (yield from once(problem, problem.trial(_tuned(problem, **defaults)), note))


def _slices(problem: Problem) -> StrategySearch:
    """Fewest slices along either side. Slices make buffers smaller and a low block makes programs smaller: with the blocks that
    TTNN chooses as long as buffers are what does not fit, with the lowest ones once it is programs."""
    reason, block = "", LOW_BLOCK if problem.verdict.resource in PROGRAMS else 0
    for along in ("width", "height"):
        counted = yield from _counted_slices(problem, along, block)
        if counted.tried is not None:
            used = counted.tried.trial.case.attrs["act_block_h"]
            low = f", act_block_h_override={used}" if used else ""
            return StrategyResult(counted.tried, note=f"{counted.count} slices along the {along}{low}, operands in DRAM")
        reason = f"slices along the {along}: {counted.reason}"
    return StrategyResult(None, reason)


def _counted_slices(problem: Problem, along: str, block: int) -> Generator[Trial, TrialResult, CountResult]:
    """The smallest count with ``block``; from the first count on whose programs do not fit, with the lowest block."""
    steps = smallest_count(
        lambda count: problem.trial(_tuned(problem, slices=f"{along}:{count}", act_block_h=block)), MAX_SLICES
    )
    lowered: CountResult | None = None
    try:
        trial = next(steps)
        while True:
            tried = yield trial
            if not block and not lowered and tried.verdict.resource in PROGRAMS:
                lowered = yield from _counted_slices(problem, along, LOW_BLOCK)
                if lowered.tried is not None:
                    return lowered
            trial = steps.send(tried)
    except StopIteration as stop:
        counted: CountResult = stop.value
        return counted


WINDOW_REWRITES: Mapping[RewriteName, Rewrite] = {
    RewriteName.POOLED_ROWS: pooled_rows,
    RewriteName.INTERPOLATED_ROWS: interpolated_rows,
}

WINDOW_LEVERS = (
    Strategy("other slices", Impact.SAME, lambda p: _is_sliced(p) and p.memory is BufferType.DRAM, _slices),
    Strategy("as TTNN slices it", Impact.SAME, lambda p: _is_tuned(p) and p.memory is BufferType.DRAM, _untuned),
    Strategy("slices of a convolution", Impact.SAME, lambda p: _is_whole(p) and p.memory is BufferType.DRAM, _slices),
    Strategy(
        "slices of a convolution from DRAM", Impact.MEMORY, lambda p: _is_conv2d(p) and p.memory is BufferType.L1, _slices
    ),
    Strategy("rows with their neighbours", Impact.CHUNKED, _can_pool_rows, _pool_rows),
    Strategy("rows with their neighbours", Impact.CHUNKED, lambda p: p.info.name == BILINEAR, _interpolate_rows),
)
