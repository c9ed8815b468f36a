"""Settings of an operation in MLIR as TTNN's own arguments: program configs, compute and convolution configs, activations.

``#ttnn.matmul_multi_core_reuse_multi_cast_1d_program_config<in0_block_w = 16, per_core_m = 1, …>`` is TTNN's
``MatmulMultiCoreReuseMultiCast1DProgramConfig(in0_block_w=16, per_core_M=1, …)``: the dialect writes the names of TTNN's
classes and fields in its own case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.core.memory_config import Cores
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.parse.brackets import split
from ssinghal.diagnose.parse.mlir_layout import DTYPES, core_ranges
from ssinghal.errors import InvalidCase
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.settings import settings_of, table
from ssinghal.operators.settings.table import Field
from ssinghal.operators.settings.values import canonical

# Attributes of the dialect, and TTNN's names of the arguments that they become; a call takes one of them.
NAMES: Mapping[str, tuple[str, ...]] = {
    "matmul_program_config": ("program_config",),
    "program_config": ("program_config",),
    "conv2d_config": ("conv_config",),
    "conv2d_slice_config": ("slice_config", "dram_slice_config"),
    "slice_config": ("slice_config", "dram_slice_config"),
    "compute_config": ("compute_kernel_config", "compute_config"),
    "compute_kernel_config": ("compute_kernel_config", "compute_config"),
    "activation": ("activation",),
    "core_grid": ("core_grid",),
    "sub_core_grids": ("sub_core_grids",),
    "applied_shard_scheme": ("applied_shard_scheme",),
    "reallocate_halo_output": ("reallocate_halo_output",),
    "config_tensors_in_dram": ("config_tensor_in_dram",),
    "transpose_a": ("transpose_a",),
    "transpose_b": ("transpose_b",),
}
_EMPTY: tuple[Any, ...] = (None, "", False, [], {})
_ATTRIBUTE = re.compile(r"(?:#\w+\.)?(\w+)?<(.*)>", re.DOTALL)
_POSITIONS: Mapping[str, tuple[str, ...]] = {"Conv2dSliceConfig": ("slice_type", "num_slices")}


@dataclass(frozen=True)
class Settings:
    """``attrs``: settings of the case. ``left_out``: what of the operation's is not among them."""

    attrs: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


def settings_in(operation: Operation, info: OperatorInfo) -> Settings:
    """Returns the settings of ``operation`` that a call of ``info`` takes."""
    function = operation.name.removeprefix("ttnn.")
    taken = settings_of(info, (function,) if function in info.functions else None)
    attrs: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in operation.attributes.items():
        if name not in NAMES or value in _EMPTY or str(value).lower() == "false":
            continue
        setting = next((one for one in NAMES[name] if one in taken or one in info.attrs), None)
        if setting is None:
            left_out.append(name)
        elif setting in info.attrs:
            attrs[setting] = str(value).lower() == "true" if setting.startswith("transpose") else value
        else:
            try:
                written, missing = _value(value, taken[setting])
                attrs[setting] = canonical(written, taken[setting], setting)
                left_out += [f"{name}: {field}" for field in missing]
            except InvalidCase as error:
                left_out.append(f"{name} ({error})")
    return Settings(attrs, tuple(left_out))


def _value(value: Any, field: Field) -> tuple[Any, list[str]]:
    """Returns a value as TTNN's settings are written, and the fields of the dialect that no release of TTNN has."""
    if not isinstance(value, str):
        return value, []
    text = value.strip()
    if text in DTYPES and "DataType" in field.kinds:
        return DTYPES[text].value, []
    if "core_range<" in text and "CoreRangeSet" in field.kinds:
        return str(Cores(core_ranges(text))), []
    if any(kind in table().enums for kind in field.kinds) and "<" not in text and "=" not in text:
        return text.upper(), []  # as TTNN prints members: L1_FULL
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        return _plain(text), []
    name, inner = match[1] or "", split(match[2])
    if inner and all(part.isascii() and part.isdigit() and len(part) < 10 for part in inner):
        return [int(part) for part in inner], []
    kind = _class(name, field)
    if kind is None:
        return _value(inner[0], field) if len(inner) == 1 and "=" not in inner[0] else (_plain(text), [])
    return _config(kind, inner)


def _class(name: str, field: Field) -> str | None:
    """Returns the class of a config: of the name that the dialect writes, else the only one that the field takes."""
    known = {_folded(one): one for one in (*table().classes, *table().aliases)}
    if name:
        found = known.get(_folded(name))
        return table().aliases.get(found, found) if found else None
    classes = [kind for kind in field.kinds if kind in table().classes]
    return classes[0] if len(classes) == 1 else None


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _config(kind: str, parts: list[str]) -> tuple[dict[str, Any], list[str]]:
    fields = table().classes[kind]
    by_folded = {_folded(name): name for name in fields}
    config: dict[str, Any] = {"type": kind}
    missing: list[str] = []
    for number, part in enumerate(parts):
        written, equals, text = (word.strip() for word in part.partition("="))
        if not equals:
            positions = _POSITIONS.get(kind, ())
            written, text = (positions[number] if number < len(positions) else part), written
        name = written if kind == "UnaryWithParam" else by_folded.get(_folded(written))
        if name is None:
            missing += [] if text in ("false", "0", "none") else [f"{written} = {text}"]
            continue
        if kind == "UnaryWithParam":
            config[name] = [_plain(one) for one in split(text.strip("[]"))] if text.startswith("[") else _plain(text)
        else:
            config[name], deeper = _value(_plain(text), fields[name])
            missing += deeper
    return config, missing


def _plain(text: str) -> Any:
    """Parses a number, ``true`` or ``false``; other text stays."""
    text = text.partition(" : ")[0].strip()
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return None if text == "none" else text.strip('"')
