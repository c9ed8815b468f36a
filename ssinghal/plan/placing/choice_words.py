"""Puts choices of steps into words, as tables and messages have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssinghal.core.memory_config import MemoryConfig
from ssinghal.plan.placement import DRAM, StepChoice, thawed

_NAMES = {
    "act_block_h_override": "act_block_h",
    "shard_layout": "shards",
    "compute_with_storage_grid_size": "grid",
}
_PAIRS = {"out_subblock_h": "out_subblock_w", "out_block_h": "out_block_w", "per_core_M": "per_core_N"}
_LAYOUTS = {"HEIGHT_SHARDED": "height", "WIDTH_SHARDED": "width", "BLOCK_SHARDED": "block"}
_SLICES = {"L1Full": "not sliced", "DRAMSliceHeight": "slices of rows", "DRAMSliceWidth": "slices of columns"}


Places = Mapping[int, MemoryConfig]  # where operands are, by position


def choice_text(choice: StepChoice, operands: Places | None = None) -> str:
    """Returns a choice in one line: where its results go, the settings of its call, and what it moves.

    ``operands``: where they are before the step; moves to where they are are then left out.

    >>> from ssinghal.plan.placement import DRAM, L1
    >>> choice_text(StepChoice(memory=None, moves=((0, L1),), after=DRAM))
    'result where TTNN puts it; operand 1 to l1 before the call; result to dram after the call'
    """
    memory = "where TTNN puts it" if choice.memory is None else f"in {choice.memory}"
    return "; ".join([f"result {memory}", *filter(None, [settings_text(choice)]), *moves_text(choice, operands)])


def settings_text(choice: StepChoice) -> str:
    """Returns the settings of a call, the fields of a config by their own names; two that belong together as one.

    >>> from ssinghal.plan.placement import frozen
    >>> config = frozen({"type": "Conv2dConfig", "shard_layout": "HEIGHT_SHARDED", "act_block_h_override": 64})
    >>> settings_text(StepChoice(settings=(("conv_config", config),)))
    'shards height, act_block_h 64'
    """
    return ", ".join(part for name, value in choice.settings for part in _parts(name, thawed(value)))


def _parts(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield _NAMES.get(name, name) if value is True else f"{_NAMES.get(name, name)} {_value(value)}"
        return
    if "slice_type" in value:
        count = f" x {value['num_slices']}" if value.get("num_slices") else ""
        yield _SLICES.get(str(value["slice_type"]), str(value["slice_type"])) + count
        return
    if name == "program_config":
        yield str(value.get("type", name)).removeprefix("MatmulMultiCore").removesuffix("ProgramConfig")
    second = {_PAIRS[key] for key in _PAIRS.keys() & value.keys()} & value.keys()
    for key, item in value.items():
        other = value.get(_PAIRS.get(key, ""))
        if other is not None:
            yield f"{key[:-2]} {item}x{other}"
        elif key != "type" and key not in second:
            yield from _parts(key, item)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(_value, value))
    return _LAYOUTS.get(str(value), str(value))


def moves_text(choice: StepChoice, operands: Places | None = None) -> tuple[str, ...]:
    """Returns what a choice moves, in the order in which it does. Operands are counted from 1; ``operands``: where they are."""
    return tuple(_moves(choice, operands or {}))


def _moves(choice: StepChoice, operands: Places) -> Iterator[str]:
    if choice.compact:
        yield "tensors in L1 moved together before the call"
    for position, memory in choice.moves:
        if operands.get(position) != memory:
            yield f"operand {position + 1} to {memory} before the call"
    if choice.after is not None:
        yield f"result to {choice.after} after the call"
    for position in choice.spills:
        yield f"operand {position + 1} to {DRAM} after the call"
