"""Splits operators with sliding windows into pieces of rows, with the neighbouring rows that the windows reach; and chooses the
number of slices of convolutions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, BufferType
from ssinghal.core.verdict import Resource
from ssinghal.operators import named
from ssinghal.operators.convolution import TUNING
from ssinghal.operators.operator_info import pair
from ssinghal.operators.pooling import window_of
from ssinghal.remedy.config_changes import without_blocks
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import Params, Rewrite, RewriteBackend, cuts, in_dram
from ssinghal.remedy.strategies.count_search import CountResult, smallest_count
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, once
from ssinghal.remedy.trial import Impact, RewriteName, Trial, TrialResult

MAX_SLICES = 256
LOW_BLOCK = TILE_EDGE  # rows of the smallest activation block that TTNN takes
MAX_POOL, AVG_POOL, CONVOLUTION, BILINEAR = named("max_pool2d avg_pool2d convolution upsample_bilinear2d")
PROGRAMS = (Resource.CIRCULAR_BUFFER, Resource.CLASH)


# Pools --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowWindow:
    """The input of a stretch of a pool's result rows: rows ``begin`` to ``end`` of the map, and padding at top and bottom."""

    begin: int
    end: int
    top: int
    bottom: int


def rows_of(first: int, last: int, height: int, *, kernel_size: int, stride: int, padding: int, dilation: int) -> RowWindow:
    """Returns the input that the windows of result rows ``first`` to ``last`` cover.

    >>> rows_of(0, 2, 8, kernel_size=3, stride=2, padding=1, dilation=1)
    RowWindow(begin=0, end=4, top=1, bottom=0)
    """
    begin = first * stride - padding
    end = (last - 1) * stride - padding + dilation * (kernel_size - 1) + 1
    return RowWindow(max(begin, 0), min(end, height), max(-begin, 0), max(end - height, 0))


def pooled_rows(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Computes each image's result in ``count`` stretches of rows, each from the rows of the map that its windows reach."""
    n, channels, height, width = backend.case.inputs[0]
    window = window_of(backend.attrs)
    along_height = {name: sizes[0] for name, sizes in window.items()}
    parts = []
    stretches = [(image, *stretch) for image in range(n) for stretch in cuts(params["rows"], params["count"])]
    for number, (image, first, last) in enumerate(stretches):
        rows = rows_of(first, last, height, **along_height)
        with backend.piece(number):
            starts = [0, 0, (image * height + rows.begin) * width, 0]
            ends = [1, 1, (image * height + rows.end) * width, channels]
            memory = backend.in_memory(BufferType(params["memory"]))
            part = backend.ttnn.slice(backend.tensors[0], starts, ends, memory_config=memory)
            result = getattr(backend.ttnn, backend.case.operator)(
                part,
                batch_size=1,
                input_h=rows.end - rows.begin,
                input_w=width,
                channels=channels,
                kernel_size=list(window["kernel_size"]),
                stride=list(window["stride"]),
                padding=[rows.top, rows.bottom, window["padding"][1], window["padding"][1]],
                **({"dilation": list(window["dilation"])} if backend.case.operator == MAX_POOL else {}),
            )
            backend.free(part)
            if tuple(result.shape)[:2] != (1, 1):  # TTNN sliced the piece again, and returns the map unfolded
                result = backend.ttnn.reshape(result, [1, 1, result.shape[0] * result.shape[1] * result.shape[2], channels])
            parts.append(in_dram(backend, result))
    return [backend.ttnn.concat(parts, dim=2, memory_config=backend.in_memory(BufferType.DRAM))]


def _can_pool_rows(problem: Problem) -> bool:
    """Whether rows of padding count in every piece as in torch."""
    attrs = problem.call.attrs
    if problem.info.name == MAX_POOL:
        return True
    plain = problem.info.name == AVG_POOL and not attrs["ceil_mode"] and attrs["divisor_override"] is None
    return plain and (attrs["count_include_pad"] or not any(pair(attrs["padding"])))


def _pool_rows(problem: Problem) -> StrategySearch:
    if problem.settings:
        return StrategyResult(None, f"not tried: pieces of rows would not take the call's {', '.join(problem.settings)}")
    n, _, *_ = problem.case.inputs[0]
    rows = problem.info.infer(problem.case.inputs, problem.call.attrs)[0][2]
    case = problem.in_dram()

    def trial(count: int) -> Trial:
        how = {"rows": rows, "count": count, "memory": problem.memory.value}
        return replace(problem.trial(case, RewriteName.POOLED_ROWS), params=how)

    counted = yield from smallest_count(trial, rows, first=1 if n > 1 else 2)
    if counted.result is None:
        return StrategyResult(None, counted.reason)
    pieces = counted.count * n
    return StrategyResult(
        counted.result, note=f"{pieces} pieces of rows, with the rows that their windows reach; all in DRAM in between"
    )


# Bilinear -----------------------------------------------------------------------------------------------------------------


def interpolated_rows(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Computes ``count`` stretches of the map's rows, each with one more row on either side, which is cut off afterwards."""
    tensor = backend.tensors[0]
    n, height, width, channels = tuple(tensor.shape)
    down, across = params["scale"]
    parts = []
    for number, (first, last) in enumerate(cuts(height, params["count"])):
        begin, end = max(first - 1, 0), min(last + 1, height)
        with backend.piece(number):
            memory = backend.in_memory(BufferType(params["memory"]))
            part = backend.ttnn.slice(tensor, [0, begin, 0, 0], [n, end, width, channels], memory_config=memory)
            wide = backend.ttnn.upsample(part, [down, across], mode="bilinear", memory_config=memory)
            backend.free(part)
            kept = [(first - begin) * down, (last - begin) * down]
            dram = backend.in_memory(BufferType.DRAM)
            starts, ends = [0, kept[0], 0, 0], [n, kept[1], width * across, channels]
            parts.append(backend.ttnn.slice(wide, starts, ends, memory_config=dram))
            backend.free(wide)
    return [backend.ttnn.concat(parts, dim=1, memory_config=backend.in_memory(BufferType.DRAM))]


def _integer_scale(problem: Problem) -> tuple[int, int] | None:
    (_, _, h, w), (_, _, oh, ow) = problem.case.inputs[0], problem.info.infer(problem.case.inputs, problem.call.attrs)[0]
    return (oh // h, ow // w) if oh % h == 0 and ow % w == 0 else None


def _interpolate_rows(problem: Problem) -> StrategySearch:
    if problem.settings:
        return StrategyResult(None, f"not tried: pieces of rows would not take the call's {', '.join(problem.settings)}")
    scale, height = _integer_scale(problem), problem.case.inputs[0][2]
    if scale is None:
        return StrategyResult(None, "the scale is not an integer, so pieces do not end with rows of the result")
    case = problem.in_dram()

    def trial(count: int) -> Trial:
        how = {"scale": list(scale), "count": count, "memory": problem.memory.value}
        return replace(problem.trial(case, RewriteName.INTERPOLATED_ROWS), params=how)

    counted = yield from smallest_count(trial, height)
    note = f"{counted.count} pieces of rows, each with one more on either side; all in DRAM in between"
    return StrategyResult(counted.result, counted.reason, note)


# Convolutions -------------------------------------------------------------------------------------------------------------


def _is_conv2d(problem: Problem) -> bool:
    shapes = problem.case.inputs
    return problem.info.name == CONVOLUTION and len(shapes[0]) == 4 and not problem.call.attrs["transposed"]


def _tuned(problem: Problem, **tuning: Any) -> Case:
    """Returns the call from DRAM with this tuning alone, and no blocks or slices in its configs."""
    case = without_blocks(problem.in_dram())
    return replace(case, attrs={**case.attrs, **tuning})


def _is_tuned(problem: Problem) -> bool:
    tuned = any(problem.call.attrs[name] != attr.default for name, attr in TUNING.items()) if _is_conv2d(problem) else False
    return _is_conv2d(problem) and (tuned or without_blocks(problem.case) != problem.case)


def _is_sliced(problem: Problem) -> bool:
    return _is_conv2d(problem) and ":" in problem.call.attrs["slices"]


def _is_unsliced(problem: Problem) -> bool:
    return _is_conv2d(problem) and not _is_sliced(problem)


def _untuned(problem: Problem) -> StrategySearch:
    defaults = {name: attr.default for name, attr in TUNING.items()}
    note = "no slice_config and no conv_config, operands in DRAM: TTNN slices as it needs"
    return (yield from once(problem, problem.trial(_tuned(problem, **defaults)), note))


def _slices(problem: Problem) -> StrategySearch:
    """Finds the fewest slices along width or height. Slices make buffers smaller, and low blocks make programs smaller: blocks
    are TTNN's choice as long as buffers do not fit, and the lowest once programs do not fit."""
    reason, block = "", LOW_BLOCK if problem.verdict.resource in PROGRAMS else 0
    for along in ("width", "height"):
        counted = yield from _counted_slices(problem, along, block)
        if counted.result is not None:
            used = counted.result.trial.case.attrs["act_block_h"]
            low = f", act_block_h_override={used}" if used else ""
            slices = f"{counted.count} slice{'' if counted.count == 1 else 's'} along the {along}"
            return StrategyResult(counted.result, note=f"{slices}{low}, operands in DRAM")
        reason = f"slices along the {along}: {counted.reason}"
    return StrategyResult(None, reason)


def _counted_slices(problem: Problem, along: str, block: int) -> Generator[Trial, TrialResult, CountResult]:
    """Finds the smallest count with ``block``, and with the lowest block once the programs of a count do not fit."""
    steps = smallest_count(
        lambda count: problem.trial(_tuned(problem, slices=f"{along}:{count}", act_block_h=block)), MAX_SLICES
    )
    lowered: CountResult | None = None
    try:
        trial = next(steps)
        while True:
            result = yield trial
            if not block and not lowered and result.verdict.resource in PROGRAMS:
                lowered = yield from _counted_slices(problem, along, LOW_BLOCK)
                if lowered.result is not None:
                    return lowered
            trial = steps.send(result)
    except StopIteration as stop:
        counted: CountResult = stop.value
        return counted


WINDOW_REWRITES: Mapping[RewriteName, Rewrite] = {
    RewriteName.POOLED_ROWS: pooled_rows,
    RewriteName.INTERPOLATED_ROWS: interpolated_rows,
}

WINDOW_STRATEGIES = (
    Strategy("other slices", Impact.SAME, lambda p: _is_sliced(p) and p.memory is BufferType.DRAM, _slices),
    Strategy("as TTNN slices it", Impact.SAME, lambda p: _is_tuned(p) and p.memory is BufferType.DRAM, _untuned),
    Strategy("slices of a convolution", Impact.SAME, lambda p: _is_unsliced(p) and p.memory is BufferType.DRAM, _slices),
    Strategy(
        "slices of a convolution from DRAM", Impact.MEMORY, lambda p: _is_conv2d(p) and p.memory is BufferType.L1, _slices
    ),
    Strategy("rows with their neighbours", Impact.CHUNKED, _can_pool_rows, _pool_rows),
    Strategy("rows with their neighbours", Impact.CHUNKED, lambda p: p.info.name == BILINEAR, _interpolate_rows),
)
