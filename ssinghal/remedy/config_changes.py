"""Changes to the configuration of a call: smaller blocks of its programs, or none. Pure functions of what the config has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, DType, TensorSpec, ceil_div
from ssinghal.operators.operator_info import WEIGHTS_DTYPE

MATMUL_PROGRAMS = tuple(
    f"MatmulMultiCoreReuse{kind}ProgramConfig"
    for kind in ("", "MultiCast", "MultiCast1D", "MultiCastDRAMSharded", "MultiCastBatchedDRAMSharded")
)
IN0_BLOCK, OUT_BLOCKS = "in0_block_w", {"out_block_w": "per_core_N", "out_block_h": "per_core_M"}
PROGRAM_CONFIG, ACTIVATION, FUSED = "program_config", "activation", "fused_activation"
CONV_CONFIG, SLICE_CONFIG = "conv_config", "slice_config"
# Fields of a convolution's config that decide what it computes and returns, not in which parts.
CONV_RESULT = ("type", WEIGHTS_DTYPE, ACTIVATION, "output_layout", "padding_mode", "deallocate_activation")
HIGHEST_BLOCK = 64 * TILE_EDGE  # rows of the activation block that is tried first where TTNN chooses it
CHUNKS = ("q_chunk_size", "k_chunk_size")  # of an SDPAProgramConfig
Fields = Mapping[str, Any]


def divisors_below(number: int, limit: int) -> list[int]:
    """Returns the divisors of ``number`` that are less than ``limit``, the largest first.

    >>> divisors_below(12, 12)
    [6, 4, 3, 2, 1]
    """
    return [divisor for divisor in range(min(number, limit - 1), 0, -1) if number % divisor == 0]


def smaller_parts(fields: Fields, name: str) -> list[int]:
    """Returns smaller sizes for a block of a matmul's program, the largest first: parts of the present one, of complete
    subblocks.

    >>> smaller_parts({"per_core_N": 8, "out_subblock_w": 2}, "out_block_w")
    [4, 2]
    """
    size = fields.get(name) or fields.get(OUT_BLOCKS.get(name, ""))
    subblock = fields.get(name.replace("block", "subblock"), 1) if name in OUT_BLOCKS else 1
    return [part for part in divisors_below(size, size) if part % subblock == 0] if isinstance(size, int) else []


def smaller_programs(config: Fields, result: TensorSpec, grid: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Yields fields to change in a program config so that its buffers get smaller, the least change first.

    ``result``: of the call; ``grid``: the board's.
    """
    kind = str(config["type"])
    if kind in MATMUL_PROGRAMS:
        names = [IN0_BLOCK, *(OUT_BLOCKS if kind in MATMUL_PROGRAMS[1:3] else ())]
        parts = {name: smaller_parts(config, name) for name in names}
        for name in names:
            yield from ({name: part} for part in parts[name])
        least = {IN0_BLOCK: 1} if parts[IN0_BLOCK] else {}
        yield from ({**least, name: part} for name in names[1:] for part in parts[name] if least)
        if more := _on_all_cores(config, result, grid):
            yield more
            yield {**more, **least}
    elif kind == "SDPAProgramConfig":
        halves = {name: list(_halves(config[name])) for name in CHUNKS if isinstance(config.get(name), int)}
        for name, sizes in halves.items():
            yield from ({name: size} for size in sizes)
        if all(halves.get(name) for name in CHUNKS):
            yield from (dict(zip(CHUNKS, sizes, strict=True)) for sizes in zip(*(halves[n] for n in CHUNKS), strict=False))
    elif isinstance(config.get("subblock_w"), int):  # sharded softmax and norms
        yield from ({"subblock_w": part} for part in divisors_below(config["subblock_w"], config["subblock_w"]))


def _halves(size: int) -> Iterator[int]:
    while size % (2 * TILE_EDGE) == 0:
        size //= 2
        yield size


def _on_all_cores(config: Fields, result: TensorSpec, grid: tuple[int, int]) -> dict[str, Any]:
    """Returns the fields of a config whose cores have fewer tiles, as all cores of the board have a part; empty where they have
    one already."""
    columns, rows = grid
    height, width = (size // TILE_EDGE for size in result.padded_2d)
    down, across = config.get("per_core_M"), config.get("per_core_N")
    if not isinstance(down, int) or not isinstance(across, int):
        return {}
    if config["type"] == "MatmulMultiCoreReuseMultiCastProgramConfig":
        lines = (columns, rows) if config.get("transpose_mcast") else (rows, columns)
        parts = min(down, ceil_div(height, lines[0])), min(across, ceil_div(width, lines[1]))
    elif config["type"] == "MatmulMultiCoreReuseMultiCast1DProgramConfig":
        cores = columns * rows
        along_width = config.get("mcast_in0")
        parts = (down, min(across, ceil_div(width, cores))) if along_width else (min(down, ceil_div(height, cores)), across)
    else:
        return {}
    if parts == (down, across):
        return {}
    return {
        "compute_with_storage_grid_size": [columns, rows],
        "per_core_M": parts[0],
        "per_core_N": parts[1],
        "out_block_h": None,
        "out_block_w": None,
        "out_subblock_h": math.gcd(parts[0], config.get("out_subblock_h", 1)),
        "out_subblock_w": math.gcd(parts[1], config.get("out_subblock_w", 1)),
    }


def with_fields(config: Fields, changed: Fields) -> dict[str, Any]:
    """Returns the config with other fields; those that are None are TTNN's choice and left out."""
    return {name: value for name, value in {**config, **changed}.items() if value is not None}


def without_program(case: Case) -> Case | None:
    """Returns the case without the program config, which belongs to shapes and shards, but with the activation that it fuses;
    None where there is no config, or its activation cannot be passed otherwise."""
    config = case.attrs.get(PROGRAM_CONFIG)
    if config is None:
        return None
    attrs = {name: value for name, value in case.attrs.items() if name != PROGRAM_CONFIG}
    fused = config.get(FUSED)
    if fused is None:
        return replace(case, attrs=attrs)
    if fused.get("params") or attrs.get(ACTIVATION) is not None:
        return None
    return replace(case, attrs={**attrs, ACTIVATION: str(fused["op_type"]).lower()})


def convolution_changes(config: Fields) -> Iterator[dict[str, Any]]:
    """Yields fields to change in a convolution's config so that its buffers get smaller, the least change first."""
    if not config.get("reallocate_halo_output"):
        yield {"reallocate_halo_output": True}
    on = [name for name in ("enable_weights_double_buffer", "enable_act_double_buffer") if config.get(name)]
    yield from ({name: False} for name in on)
    present = (config.get("act_block_h_override") or HIGHEST_BLOCK) // TILE_EDGE
    yield from ({"act_block_h_override": part * TILE_EDGE} for part in divisors_below(present, present))
    width = config.get("act_block_w_div") or 1
    yield from ({"act_block_w_div": width * factor} for factor in (2, 4, 8))
    least = {**dict.fromkeys(on, False), "reallocate_halo_output": True, "act_block_h_override": TILE_EDGE}
    yield least
    for layout in ("HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED"):
        if config.get("shard_layout") != layout:
            other = {"shard_layout": layout, "reshard_if_not_optimal": True}
            yield other
            yield {**other, **least}


def without_blocks(case: Case) -> Case:
    """Returns a convolution whose config states no blocks, shards and cores, and without slices, so that TTNN chooses them."""
    attrs = {name: value for name, value in case.attrs.items() if name != SLICE_CONFIG}
    if attrs.get(CONV_CONFIG) is not None:
        attrs[CONV_CONFIG] = {name: value for name, value in attrs[CONV_CONFIG].items() if name in CONV_RESULT}
        if len(attrs[CONV_CONFIG]) == 1:
            del attrs[CONV_CONFIG]
    return replace(case, attrs=attrs)


def with_weights_in(case: Case, dtype: DType) -> Case:
    """Returns the call with its weights in ``dtype``, stated where the call states their dtype now."""
    config = case.attrs.get(CONV_CONFIG) or {}
    if WEIGHTS_DTYPE in config:
        return replace(case, attrs={**case.attrs, CONV_CONFIG: {**config, WEIGHTS_DTYPE: dtype.value}})
    return replace(case, attrs={**case.attrs, WEIGHTS_DTYPE: dtype.value})


def stated_weights_dtype(case: Case) -> DType | None:
    """Returns the dtype of the weights in the config of a convolution, if it has one."""
    name = (case.attrs.get(CONV_CONFIG) or {}).get(WEIGHTS_DTYPE)
    return None if name is None else DType(name)
