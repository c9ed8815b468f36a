"""Changes to the configuration that a failed convolution or matmul is given."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, ceil_div
from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.failed_call.changes import (
    Change,
    Lever,
    named,
    objects,
    with_argument,
    with_fields,
    with_object,
)
from ssinghal.diagnose.failed_call.state import FailedCall
from ssinghal.profile.failure import Failure
from ssinghal.remedy.config_changes import MATMUL_PROGRAMS, divisors_below, smaller_parts

_CONVOLUTIONS = ("ttnn.conv1d", "ttnn.conv2d", "ttnn.conv_transpose2d")
_UNKNOWN_TILES = 64  # tiles of rows in a core where that is TTNN's own choice
_MOST_PARTS = 8
Field = Generator[Change, Verdict, None]


def _convolution(call: FailedCall) -> tuple[str | int, Mapping[str, Any]] | None:
    """Returns the Conv2dConfig of a convolution, an empty one where it has none, with its position or keyword."""
    config = next(objects(call, "Conv2dConfig"), None)
    if config is None and call.name in _CONVOLUTIONS:
        return "conv_config", {"object": ["ttnn", "Conv2dConfig"], "fields": {}}
    return config


def _conv_fields(call: FailedCall, caution: str = "", **changed: Any) -> Field:
    """Yields the call with these fields changed, unless its configuration has all of them so already."""
    config = _convolution(call)
    if config is None:
        return
    key, value = config
    changed = {name: new for name, new in changed.items() if _plain(value["fields"].get(name)) != _plain(new)}
    if not changed:
        return
    code = ", ".join(f"{name}={_shown(new)}" for name, new in changed.items())
    yield Change(code, "in the Conv2dConfig of {line}", with_fields(call, key, value, changed), caution)


def _plain(value: Any) -> Any:
    """Returns a value, or the last name of a member of an enumeration and of a constant, which are written otherwise."""
    if isinstance(value, dict) and "enum" in value:
        return value["enum"][2].lower()
    return value["name"].rpartition(".")[2].lower() if isinstance(value, dict) and "name" in value else value


def _shown(value: Any) -> str:
    return f"ttnn.{value['name']}" if isinstance(value, dict) else str(value)


def moved_halo(call: FailedCall, failure: Failure) -> Field:
    yield from _conv_fields(call, reallocate_halo_output=True)


def single_buffers(call: FailedCall, failure: Failure) -> Field:
    config = _convolution(call)
    fields = config[1]["fields"] if config else {}
    on = [name for name in ("enable_weights_double_buffer", "enable_act_double_buffer") if fields.get(name)]
    for names in (*([name] for name in on), *([on] if len(on) > 1 else [])):
        yield from _conv_fields(call, "", **dict.fromkeys(names, False))


def rows_in_parts(call: FailedCall, failure: Failure) -> Field:
    """A core computes its rows of tiles in parts; the parts must be equal."""
    config = _convolution(call)
    if config is None:
        return
    tiles = _rows_of_core(call) or _UNKNOWN_TILES
    present = config[1]["fields"].get("act_block_h_override") or 0
    for part in divisors_below(tiles, ceil_div(present, TILE_EDGE) if present else tiles)[:_MOST_PARTS]:
        yield from _conv_fields(call, act_block_h_override=part * TILE_EDGE)


def _rows_of_core(call: FailedCall) -> int | None:
    """Returns the tiles of output rows that a core has, where the call's own shards decide it."""
    kwargs = call.arguments["kwargs"]
    operand = kwargs.get("input_tensor") or next(iter(call.arguments["args"]), None)
    if not isinstance(operand, dict) or "tensor" not in operand or not call.operands[operand["tensor"]].spec.config:
        return None
    config = json.loads(call.operands[operand["tensor"]].spec.config)
    shard = config.get("shard_spec")
    try:
        height, width = (_extent(kwargs, index) for index in (0, 1))
        rows = kwargs["batch_size"] * height * width
    except (KeyError, TypeError, IndexError):
        return None
    if shard is None:
        return None
    is_block = config["memory_layout"] == _BLOCK_SHARDED
    cores = _rows_of_cores(shard["grid"]) if is_block else sum(map(_cores, shard["grid"]))
    return ceil_div(ceil_div(rows, cores), TILE_EDGE)


_BLOCK_SHARDED = 4  # TTNN's number of that memory layout


def _cores(part: Mapping[str, Any]) -> int:
    start, end = part["start"], part["end"]
    return int((end["x"] - start["x"] + 1) * (end["y"] - start["y"] + 1))


def _rows_of_cores(grid: list[Mapping[str, Any]]) -> int:
    return int(max(part["end"]["y"] for part in grid) - min(part["start"]["y"] for part in grid) + 1)


def _extent(kwargs: Mapping[str, Any], index: int) -> int:
    """Returns the rows (0) or columns (1) of the result of a convolution."""

    def size(name: str, default: int) -> int:
        value = kwargs.get(name, default)
        items = value["tuple"] if isinstance(value, dict) else value
        return int(items[index] if isinstance(items, list) else items)

    side = kwargs[("input_height", "input_width")[index]]
    span = size("dilation", 1) * (size("kernel_size", 1) - 1) + 1
    return int((side + 2 * size("padding", 0) - span) // size("stride", 1) + 1)


def tables_in_dram(call: FailedCall, failure: Failure) -> Field:
    if failure.memory == "l1_small":
        yield from _conv_fields(call, config_tensors_in_dram=True)
        if "pool" in call.name and not call.arguments["kwargs"].get("config_tensor_in_dram"):
            changed = with_argument(call, "config_tensor_in_dram", True)
            yield Change("config_tensor_in_dram=True", "in the call, {line}", changed)


def sliced_by_ttnn(call: FailedCall, failure: Failure) -> Field:
    """Without a choice of its own, a convolution or pool on a tensor in DRAM is computed in as many slices as fit."""
    if call.arguments["kwargs"].get("slice_config") is not None:
        caution = "TTNN chooses the slices; the result may be in DRAM"
        yield Change("no slice_config", "in the call, {line}", with_argument(call, "slice_config", None), caution)


def freed_input(call: FailedCall, failure: Failure) -> Field:
    yield from _conv_fields(call, "if nothing uses the input afterwards", deallocate_activation=True)


def other_shards(call: FailedCall, failure: Failure) -> Field:
    for layout in ("HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED"):
        value = named(f"TensorMemoryLayout.{layout}")
        yield from _conv_fields(call, "the result is sharded otherwise", shard_layout=value, reshard_if_not_optimal=True)


def narrower_weights(call: FailedCall, failure: Failure) -> Field:
    yield from _conv_fields(call, "weights are rounded", weights_dtype=named("bfloat8_b"))


def _smaller(call: FailedCall, name: str) -> Field:
    """Yields the call with a smaller one of the blocks that a matmul's program configuration has."""
    for key, value in objects(call, *MATMUL_PROGRAMS):
        if "json" not in value:
            continue
        fields = json.loads(value["json"])
        for part in smaller_parts(fields, name):
            changed = with_fields(call, key, value, {name: part})
            yield Change(f"{name}={part}", f"in the {value['object'][1]} of {{line}}", changed)


def smaller_inner_blocks(call: FailedCall, failure: Failure) -> Field:
    yield from _smaller(call, "in0_block_w")


def narrower_blocks(call: FailedCall, failure: Failure) -> Field:
    yield from _smaller(call, "out_block_w")


def lower_blocks(call: FailedCall, failure: Failure) -> Field:
    yield from _smaller(call, "out_block_h")


def chosen_by_ttnn(call: FailedCall, failure: Failure) -> Field:
    for key, value in objects(call, *MATMUL_PROGRAMS):
        yield Change(
            "no program_config", "in the call, {line}", with_object(call, key, None), f"TTNN chooses, not {value['object'][1]}"
        )


def cores_of_ttnn(call: FailedCall, failure: Failure) -> Field:
    """Without a grid of its own, a call runs on the cores that TTNN chooses."""
    for name in ("core_grid", "sub_core_grids"):
        if call.arguments["kwargs"].get(name) is not None:
            yield Change(f"no {name}", "in the call, {line}", with_argument(call, name, None), "TTNN chooses the cores")


CONFIGURED: tuple[Lever, ...] = (
    moved_halo,
    rows_in_parts,
    single_buffers,
    smaller_inner_blocks,
    narrower_blocks,
    lower_blocks,
    chosen_by_ttnn,
    cores_of_ttnn,
    tables_in_dram,
    sliced_by_ttnn,
    freed_input,
    other_shards,
    narrower_weights,
)
