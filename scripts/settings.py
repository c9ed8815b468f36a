"""Writes ssinghal/operators/settings/settings.yaml: which settings TTNN's functions and config classes take, in which releases.

    python scripts/settings.py [--check]

Each release that ``ssinghal releases list`` shows is read in a process of its own, from the signatures that its functions and
classes carry. What a call is about (its operands, its ATen attributes, dtype and memory of its result) is no setting.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from ssinghal.device.releases import known_releases
from ssinghal.operators import families
from ssinghal.operators.settings.signatures import Parameter, parameters

FILE = Path(__file__).parent.parent / "ssinghal" / "operators" / "settings" / "settings.yaml"
HEAD = "# Written by scripts/settings.py from the signatures of TTNN's functions and classes, release by release.\n"

# Arguments that say what is computed, or that a case has elsewhere.
NOT_SETTINGS = frozenset(
    "alpha align_corners batch_output_channels beta correction decimals device dilation dtype embeddings_type eps epsilon "
    "in0_column_offset indices_tensor is_causal layout logical_h_mask logical_w_mask max_val memory_config min_val "
    "mirror_kernel momentum num_devices output output_concat_heads output_pad_h output_pad_w output_padding pad_value padding "
    "padding_idx padding_mode return_indices return_output_dim return_weights_and_bias reverse_order rounding_mode scalar "
    "scale slice_dim sliding_window_size sparse_grad stride threshold training use_precomputed_grid value dims "
    "windowed_q_token_offset "
    "memory_layout queue_id kernel_size output_size cluster_axis topology num_links seed probability use_per_device_seed "
    "num_groups output_dtype exponent input_dtype pad shape".split()
)
ONLY_OF = {"groups": ("concat",), "mode": ("sigmoid",), "vector_mode": ("sigmoid",)}
SCALARS = frozenset(("bool", "int", "float", "str"))
CORES = frozenset(("CoreCoord", "CoreGrid", "CoreRangeSet"))
# Names by which TTNN prints or takes a class, and the name that it has here.
ALIASES = {
    "Conv1dConfig": "Conv2dConfig",
    "Op2DSliceConfig": "Conv2dSliceConfig",
    "EltwiseUnaryWithParam": "UnaryWithParam",
    "BasicUnaryWithParam": "UnaryWithParam",
    "DeviceComputeKernelConfig": "WormholeComputeKernelConfig",
    "BlackholeComputeKernelConfig": "WormholeComputeKernelConfig",
    "GrayskullComputeKernelConfig": "WormholeComputeKernelConfig",
    "init_device_compute_kernel_config": "WormholeComputeKernelConfig",
}
PLACING = frozenset(("MemoryConfig", "MeshMapperConfig"))  # configs of tensors, not of how a call computes
SPECIAL = frozenset(("UnaryWithParam",))  # classes whose fields are not those of their constructor


def functions() -> list[str]:
    """Returns the names of all TTNN functions that operators call."""
    infos = (info for members in families().values() for info in members)
    return sorted({name for info in infos for name in info.functions})


# In the process of a release --------------------------------------------------------------------------------------------


def one_release(names: Iterable[str]) -> dict[str, Any]:
    """Returns what the TTNN of this process takes: settings of each function, classes, enums and names of their members.

    ``names``: the functions of operators.
    """
    ttnn = import_module("ttnn")
    classes = {name: value for name in dir(ttnn) if isinstance(value := getattr(ttnn, name), type)}
    classes |= {value.__name__: value for value in (_slice_type(ttnn), _padding_mode(ttnn)) if value}
    found: dict[str, Any] = {"functions": {}, "classes": {}, "enums": {}, "constants": {}}
    needed: list[str] = []
    for name in sorted({*names, *_public(ttnn)}):
        function = _function(ttnn, name)
        if function is None:
            continue
        taken = {n: kinds for n, p in parameters(function).items() if (kinds := _setting(name, n, p, classes))}
        if name not in names:
            taken = {n: kinds for n, kinds in taken.items() if any(k in CORES or "Config" in k for k in kinds)}
        found["functions"][name] = {n: list(kinds) for n, kinds in sorted(taken.items())}
        needed += [kind.rstrip("*") for kinds in taken.values() for kind in kinds]
    while needed:
        _add_class(needed.pop(), classes, found, needed)
    for name in dir(ttnn):
        value = getattr(ttnn, name)
        if isinstance(value, Enum) and type(value).__name__ in found["enums"]:
            found["constants"][name] = f"{type(value).__name__}.{value.name}"
    return found


def _public(ttnn: Any) -> Iterator[str]:
    """Yields the names of all functions of TTNN that ports call: of those without an operator, configs and cores are listed."""
    for prefix in ("", "transformer.", "experimental."):
        module = _function(ttnn, prefix.removesuffix(".")) if prefix else ttnn
        for name in dir(module):
            if not name.startswith("_") and not name.endswith(("_bw", "_bwd")) and not isinstance(getattr(module, name), type):
                yield f"{prefix}{name}"


def _slice_type(ttnn: Any) -> Any:
    return getattr(getattr(ttnn, "Conv2dSliceConfig", None), "SliceTypeEnum", None)


def _padding_mode(ttnn: Any) -> Any:
    return getattr(ttnn._ttnn.operations.conv, "PaddingMode", None)


def _function(ttnn: Any, name: str) -> Any:
    value = ttnn
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _setting(function: str, name: str, parameter: Parameter, classes: Mapping[str, type]) -> tuple[str, ...]:
    """Returns the kinds of a setting; empty for another argument."""
    if name in NOT_SETTINGS or (name in ONLY_OF and function not in ONLY_OF[name]):
        return ()
    kinds = tuple(dict.fromkeys(kind for kind in map(_kind, parameter.kinds) if _is_known(kind, classes)))
    chosen = [kind for kind in kinds if kind.rstrip("*") not in SCALARS and kind != "None"]
    if not chosen and (parameter.required or not parameter.keyword):
        return ()
    return kinds if set(kinds) - {"None"} else ()


def _kind(kind: str) -> str:
    star = "*" if kind.endswith("*") else ""
    name = kind.rstrip("*")
    return ALIASES.get(name, name) + star


def _is_known(kind: str, classes: Mapping[str, type]) -> bool:
    name = kind.rstrip("*")
    if name in SCALARS | CORES | SPECIAL or kind == "None":
        return True
    value = classes.get(name)
    return value is not None and (issubclass(value, Enum) or ("Config" in name and name not in PLACING))


def _add_class(kind: str, classes: Mapping[str, type], found: dict[str, Any], needed: list[str]) -> None:
    if kind in SCALARS | CORES or kind == "None" or kind in found["classes"] or kind in found["enums"]:
        return
    if kind in SPECIAL:
        found["classes"][kind] = {}
        needed.append("UnaryOpType")
        return
    value = classes[kind]
    if issubclass(value, Enum):
        found["enums"][kind] = [member.name for member in value]
        return
    fields = {}
    for name, parameter in parameters(value).items():
        kinds = [k for k in map(_kind, parameter.kinds) if _is_known(k, classes)]
        if set(kinds) - {"None"}:
            fields[name] = {"kinds": kinds, "required": parameter.required}
            needed += [k.rstrip("*") for k in kinds]
    found["classes"][kind] = fields


# All releases -----------------------------------------------------------------------------------------------------------


def all_releases() -> dict[str, dict[str, Any]]:
    """Returns what each available release takes, oldest first."""
    found = {}
    for release in known_releases():
        paths = [str(FILE.parents[3]), *([] if release.installed else [str(release.folder)])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LOGURU_LEVEL": "WARNING"}
        command = [sys.executable, __file__, "--one"]
        done = subprocess.run(
            command, env=environment, input=json.dumps(functions()), capture_output=True, text=True, check=True
        )
        found[release.version] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the content of the file."""
    releases = list(found)
    classes = _merged({r: x["classes"] for r, x in found.items()})
    return {
        "releases": releases,
        "aliases": ALIASES,
        "constants": {n: v for x in found.values() for n, v in sorted(x["constants"].items())},
        "enums": {n: v for n, v in sorted(_members(found).items())},
        "classes": {n: dict(_fields(members, releases)) for n, members in sorted(classes.items())},
        "settings": {
            n: dict(_fields(members, releases))
            for n, members in sorted(_merged({r: x["functions"] for r, x in found.items()}).items())
            if members
        },
    }


def _members(found: Mapping[str, dict[str, Any]]) -> dict[str, list[str]]:
    members: dict[str, dict[str, None]] = {}
    for release in found.values():
        for name, listed in release["enums"].items():
            members.setdefault(name, {}).update(dict.fromkeys(listed))
    return {name: list(listed) for name, listed in members.items()}


def _merged(by_release: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns owner -> member -> release -> what it has."""
    merged: dict[str, dict[str, dict[str, Any]]] = {}
    for release, owners in by_release.items():
        for owner, members in owners.items():
            merged.setdefault(owner, {})
            for name, value in members.items():
                merged[owner].setdefault(name, {})[release] = value
    return merged


def _fields(members: Mapping[str, Mapping[str, Any]], releases: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each member with its kinds, "required", and the releases that have it unless all have."""
    for name, by_release in members.items():
        values = list(by_release.values())
        kinds = [v["kinds"] if isinstance(v, dict) else v for v in values]
        words = " | ".join(dict.fromkeys(k for listed in reversed(kinds) for k in listed))
        required = all(isinstance(v, dict) and v["required"] for v in values)
        yield name, f"{words}{' required' if required else ''}{_only(list(by_release), releases)}"


def _only(having: list[str], releases: list[str]) -> str:
    """Returns which releases have it; empty where all do."""
    if having == releases:
        return ""
    if having == releases[-len(having) :]:
        return f" from {having[0]}"
    return f" up to {having[-1]}" if having == releases[: len(having)] else f" in {' '.join(having)}"


def main() -> int:
    if sys.argv[1:] == ["--one"]:
        print(json.dumps(one_release(json.loads(sys.stdin.read()))))  # noqa: T201
        return 0
    text = HEAD + yaml.safe_dump(table(all_releases()), sort_keys=False, width=1000, default_flow_style=None)
    if sys.argv[1:] == ["--check"]:
        return FILE.read_text() != text
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
