"""Defines how a port of a model makes its calls: named, versioned, and part of every verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ssinghal.catalog.located_yaml import MarkedYaml
from ssinghal.core.files import exists
from ssinghal.core.parsing import dtype_named, one_of
from ssinghal.core.tensors import DType, TextEnum
from ssinghal.errors import InvalidCase, unknown
from ssinghal.plan.steering import NO_HEADROOM, Headroom, Pin, pins_of_file

WEIGHTS = (DType.BFLOAT8_B, DType.BFLOAT4_B)  # dtypes that a policy may give to weights
ACTIVATIONS = (DType.BFLOAT16, DType.BFLOAT8_B)  # and to activations in tiles
VERSION = 2  # of the policies; it changes with every change that moves bytes
L1_VERSION = 1  # of the policy l1, also with every change of the candidates or the search


class Lifetime(TextEnum):
    """The time when a tensor is freed: after the last call that reads it, or with torch's last Python object of it."""

    LAST_USE = "last_use"
    PYTHON = "python"


class Rewrite(TextEnum):
    """A change of a port that keeps what the model computes; listed in the order in which they are tried."""

    SOFTMAX_IN_PLACE = "softmax_in_place"
    SDPA = "sdpa"
    QKV_SPLIT = "qkv_split"
    DEPTH_TO_SPACE = "depth_to_space"
    WHOLE_CONVOLUTION = "whole_convolution"
    PAD_INTO_CONV = "pad_into_conv"


@dataclass(frozen=True)
class PortingPolicy:
    """How a port makes its calls.

    ``lazy_views``: reshapes and permutes cost nothing until a call needs another order (see ``plan.axis_layout``), and maps
    stay channels-last; else every result is brought to torch's order. ``fold_batch_norm``: into the convolution before it.
    ``replace_on_conversion``: a converted tensor replaces the original; else both exist during the call.
    ``transposed_matmul``: matmul transposes an operand by itself. ``weights``: the dtype of the weights of convolutions over
    rows and maps, linear layers and products, None for the model's; all else that is resident keeps the model's.
    ``activations``: the dtype of activations in tiles, where calls take it; None for the model's. ``in_l1``: activations are
    placed in L1 where that moves fewer bytes through DRAM, see ``plan.placing``; else all are in DRAM. ``headroom``: what then
    stays free of each core's L1 at every step. ``pins``: where the results of some modules must be; of several that match, the
    last one holds.
    """

    name: str
    lazy_views: bool
    lifetime: Lifetime
    fold_batch_norm: bool
    replace_on_conversion: bool
    transposed_matmul: bool
    rewrites: tuple[Rewrite, ...] = ()
    weights: DType | None = None
    version: int = VERSION
    in_l1: bool = False
    activations: DType | None = None
    headroom: Headroom = NO_HEADROOM
    pins: tuple[Pin, ...] = ()

    def __str__(self) -> str:
        parts = [f"weights={self.weights}"] if self.weights is not None else []
        parts += [f"activations={self.activations}"] if self.activations is not None else []
        parts += [f"headroom={self.headroom}"] if self.headroom else []
        return "+".join([f"{self.name} v{self.version}", *parts, *map(str, self.pins), *self.rewrites])

    def with_rewrite(self, rewrite: Rewrite) -> PortingPolicy:
        return replace(self, rewrites=(*self.rewrites, rewrite))

    def to_json(self) -> dict[str, Any]:
        weights, activations = (dtype and dtype.value for dtype in (self.weights, self.activations))
        return {
            **asdict(self),
            "lifetime": self.lifetime.value,
            "rewrites": [r.value for r in self.rewrites],
            "weights": weights,
            "activations": activations,
            "headroom": str(self.headroom),
            "pins": {pin.modules: pin.where for pin in self.pins},
        }


POLICIES: Mapping[str, PortingPolicy] = {
    "port": PortingPolicy("port", True, Lifetime.LAST_USE, True, True, True),
    "l1": PortingPolicy("l1", True, Lifetime.LAST_USE, True, True, True, version=L1_VERSION, in_l1=True),
    "eager": PortingPolicy("eager", False, Lifetime.PYTHON, False, False, False),
}


def find_policy(
    name: str,
    rewrites: tuple[str, ...] = (),
    weights: str | None = None,
    *,
    activations: str | None = None,
    headroom: str | None = None,
    pins: tuple[str, ...] = (),
) -> PortingPolicy:
    """Returns ``port``, ``l1``, ``eager``, or the policy of a YAML file: ``base`` (one of these) and what differs from it.

    The other arguments, as users write them, replace what the policy has; ``rewrites`` and ``pins`` are added.

    Raises:
        InvalidCase: no such policy, rewrite, dtype or file, a file with other content, or a headroom or pins for a policy that
            places nothing in L1.
    """
    policy = POLICIES[name] if name in POLICIES else _from_file(name)
    requested = tuple(one_of(Rewrite, "rewrite", text) for text in rewrites)
    policy = replace(policy, rewrites=tuple(dict.fromkeys((*policy.rewrites, *requested))))
    if weights is not None:
        policy = replace(policy, weights=dtype_named(weights, "--weights", WEIGHTS))
    if activations is not None:
        policy = replace(policy, activations=dtype_named(activations, "--activations", ACTIVATIONS))
    if headroom is not None:
        policy = replace(policy, headroom=Headroom.of(headroom, "--headroom"))
    policy = replace(policy, pins=(*policy.pins, *(Pin.of(text, "--pin") for text in pins)))
    if not policy.in_l1 and (policy.headroom or policy.pins):
        what = "a headroom" if policy.headroom else "a pin"
        raise InvalidCase(f"{what} is for policy l1, or a YAML file with base: l1; policy {policy.name} places nothing in L1")
    return policy


def _from_file(name: str) -> PortingPolicy:
    path = Path(name)
    if not path.suffix and not exists(path):
        raise InvalidCase(unknown("policy", name, POLICIES) + " (or a YAML file)")
    if not exists(path):
        raise InvalidCase(f"{path}: No such file")
    marked = MarkedYaml(path)
    if marked.faults:
        raise InvalidCase(str(marked.faults[0]))
    values = marked.data
    if not isinstance(values, dict):
        raise InvalidCase(f"{path}: expected a mapping like {{base: port, fold_batch_norm: false}}")
    switches = {f.name for f in fields(PortingPolicy)} - {"name", "version"}
    for key in values:
        if key not in switches | {"base"}:
            raise InvalidCase(f"{path}: {unknown('key', str(key), switches | {'base'})}")
    base = values.pop("base", "port")
    if not isinstance(base, str) or base not in POLICIES:
        raise InvalidCase(f"{path}: base: {unknown('policy', str(base), POLICIES)}")
    try:
        return replace(POLICIES[base], name=path.stem, **{key: _value(key, value) for key, value in values.items()})
    except InvalidCase as error:
        raise InvalidCase(f"{path}: {error}") from error


def _value(key: str, value: Any) -> Any:
    if key == "lifetime":
        return one_of(Lifetime, key, value)
    if key == "weights":
        return dtype_named(value, key, WEIGHTS)
    if key == "activations":
        return dtype_named(value, key, ACTIVATIONS)
    if key == "headroom":
        return Headroom.of(value, key)
    if key == "pins":
        return pins_of_file(value)
    if key == "rewrites":
        if not isinstance(value, list):
            raise InvalidCase(f"rewrites: expected a list of {', '.join(Rewrite)}")
        return tuple(one_of(Rewrite, "rewrites", text) for text in value)
    if not isinstance(value, bool):
        raise InvalidCase(f"{key}: expected true or false, got {value!r}")
    return value
