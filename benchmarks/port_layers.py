"""Cuts the calls of a hand-written port and the steps of a plan into layers, and matches them by order and shape.

A layer is a main operation (a convolution, product, norm, pool, addition, concatenation, softmax, attention or upsampling),
what moves its operands there (reshards, conversions, permutations) and the operations on single elements that follow it.
Layers match if their results have as many elements; products must also have as many channels, and both be pointwise or
neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from port_records import PortCall

from ssinghal.capture.trace import Trace
from ssinghal.core.tensors import Board, Shape
from ssinghal.errors import InvalidCase
from ssinghal.plan.lowering import PlannedStep
from ssinghal.plan.placement import Traffic

PRODUCT, ADD = "product", "add"
# Names of TTNN's calls without "ttnn." and "_", and of operators, by what they do.
_MAIN = {
    PRODUCT: "conv1d conv2d conv3d conv_transpose2d convolution linear addmm matmul bmm mm",
    "norm": "layer_norm native_layer_norm group_norm native_group_norm batch_norm rms_norm",
    "pool": "max_pool2d avg_pool2d adaptive_avg_pool2d global_avg_pool2d",
    ADD: "add",
    "concatenation": "concat cat",
    "softmax": "softmax softmax_in_place",
    "attention": "scaled_dot_product_attention",
    "upsampling": "upsample upsample_nearest2d upsample_bilinear2d",
}
MAIN: Mapping[str, str] = {name: kind for kind, names in _MAIN.items() for name in names.split()}
# Calls and operators that only move elements, or convert the tensor: they belong to the layer that reads it.
MOVING = frozenset(
    (
        "to_memory_config interleaved_to_sharded sharded_to_interleaved reshard move reallocate clone to_layout tilize untilize"
        " tilize_with_val_padding untilize_with_unpadding typecast reshape view flatten unflatten permute transpose squeeze"
        " unsqueeze unsqueeze_to_4D select slice split chunk Tensor.__getitem__ pad fold copy contiguous expand convert_to_hwc"
        " convert_to_chw split_query_key_value_and_split_heads concatenate_heads"
    ).split()
)


class Key(NamedTuple):
    """What two layers must share to be the same. ``channels``: 0 where the operation is no product."""

    kind: str
    elements: int
    channels: int
    pointwise: bool


@dataclass(frozen=True)
class Layer:
    """``key``: None for what follows the last main operation. ``l1_bytes``: the most of a core's L1, with program buffers.

    ``form``: how the result of the main operation is held, "" where it is not known.
    """

    name: str
    key: Key | None
    traffic: Traffic
    l1_bytes: int
    form: str = ""


@dataclass(frozen=True)
class _Operation:
    layer: Layer
    moves: bool


def port_layers(calls: Iterable[PortCall], board: Board) -> list[Layer]:
    """Returns the layers of a port; a layer is named after the number and name of its main call."""
    return _joined(_of_call(call, board) for call in calls if call.programs)


def plan_layers(
    trace: Trace, steps: Sequence[PlannedStep], uses: Sequence[Mapping[str, Any]], forms: Mapping[int, str]
) -> list[Layer]:
    """Returns the layers of a plan; a layer is named after its main step's module. ``uses``: of the steps, as JSON has them.
    ``forms``: how results are held, by step.

    Raises:
        InvalidCase: The steps are not those of this trace, or the plan has no bytes that its steps move.
    """
    if [use["operator"] for use in uses] != [step.operator for step in steps]:
        raise InvalidCase(f"the plan has {len(uses)} steps, not the {len(steps)} of the trace under its policy")
    if any("dram_moved_bytes" not in use for use in uses):
        raise InvalidCase("the plan does not have the bytes that its steps move (dram_moved_bytes): run it again")
    return _joined(_of_step(trace, step, use, forms.get(step.number, "")) for step, use in zip(steps, uses, strict=True))


def matched(port: Sequence[Layer], plan: Sequence[Layer]) -> list[tuple[int, int]]:
    """Returns the numbers of equal layers: the longest sequence that both have in this order."""
    longest = [[0] * (len(plan) + 1) for _ in range(len(port) + 1)]
    for i in reversed(range(len(port))):
        for j in reversed(range(len(plan))):
            same = port[i].key is not None and port[i].key == plan[j].key
            longest[i][j] = longest[i + 1][j + 1] + 1 if same else max(longest[i + 1][j], longest[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(port) and j < len(plan):
        if port[i].key is not None and port[i].key == plan[j].key:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _joined(operations: Iterable[_Operation]) -> list[Layer]:
    layers: list[Layer] = []
    before: list[Layer] = []  # operations of the layer that is to come
    for operation in operations:
        if operation.layer.key is not None:
            layers.append(_sum([*before, operation.layer]))
            before = []
        elif operation.moves or before or not layers:
            before.append(operation.layer)
        else:
            layers[-1] = _sum([operation.layer, layers[-1]])
    return [*layers, _sum(before)] if before else layers


def _sum(parts: Sequence[Layer]) -> Layer:
    """Returns the last part with the traffic of all of them and their largest peak."""
    traffic = sum((part.traffic for part in parts), Traffic())
    return replace(parts[-1], traffic=traffic, l1_bytes=max(part.l1_bytes for part in parts))


def _of_call(call: PortCall, board: Board) -> _Operation:
    name = call.name.removeprefix("ttnn.").removeprefix("transformer.").removeprefix("experimental.").rstrip("_")
    result = next((x for x in call.results if x.is_there), None)
    key = None
    if result is not None and (kind := _kind(name, result.shape, [x.shape for x in call.operands])) is not None:
        is_product = kind == PRODUCT
        pointwise = is_product and _kernel_of_call(call, name) == 1
        key = Key(kind, math.prod(result.shape), result.shape[-1] if is_product else 0, pointwise)
    layer = Layer(f"{call.number} {name}", key, call.traffic(board), call.l1_total_bytes, "" if result is None else result.form)
    return _Operation(layer, name in MOVING)


def _kind(name: str, result: Shape, operands: Iterable[Shape]) -> str | None:
    """Returns the kind of main operation, None for any other. An addition of another shape is a bias or a position."""
    kind = MAIN.get(name)
    return None if kind == ADD and any(math.prod(shape) != math.prod(result) for shape in operands) else kind


def _kernel_of_call(call: PortCall, name: str) -> int:
    """Returns the positions of the kernel: prepared weights have a row for each of them and each channel."""
    if not name.startswith("conv"):
        return 1
    weight = call.operands[1].shape
    given = call.operands[1].spec is None
    return math.prod(weight[2:]) if given else max(weight[-2] // call.operands[0].shape[-1], 1)


def _of_step(trace: Trace, step: PlannedStep, use: Mapping[str, Any], form: str) -> _Operation:
    name = step.operator.rstrip("_")
    shape, operands = trace.values[step.results[0]].shape, [trace.values[number].shape for number in step.operands]
    key = None
    if (kind := _kind(name, shape, operands)) is not None:
        is_product, is_conv = kind == PRODUCT, name.startswith("conv")
        channels = (shape[1] if is_conv else shape[-1]) if is_product else 0
        key = Key(kind, math.prod(shape), channels, is_product and (not is_conv or math.prod(operands[1][2:]) == 1))
    traffic = Traffic(use["dram_moved_bytes"], use["resharded_bytes"], use["layout_changes"])
    at = f"{step.number} {step.step.at or step.operator}"
    return _Operation(Layer(at, key, traffic, use["l1_total_peak_bytes"], form), name in MOVING)


def unmatched(layers: Sequence[Layer], numbers: Iterable[int]) -> Iterator[Layer]:
    """Yields the layers with a main operation that are not among ``numbers``."""
    found = set(numbers)
    return (layer for number, layer in enumerate(layers) if number not in found and layer.key is not None)
