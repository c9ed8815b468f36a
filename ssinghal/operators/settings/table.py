"""Which settings TTNN's functions and config classes take, by release: ``settings.yaml``, by ``scripts/settings.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

from ssinghal.operators.operator_info import OperatorInfo


@dataclass(frozen=True)
class Field:
    """A setting of a function, or a field of a config class. ``kinds``: "X*" is a list of X. ``releases`` that have it."""

    kinds: tuple[str, ...]
    required: bool
    releases: tuple[str, ...]

    @property
    def is_config(self) -> bool:
        """Whether it is a config or a set of cores, which no attribute of ATen is."""
        return any(kind in ("CoreGrid", "CoreRangeSet") or "Config" in kind for kind in self.kinds)

    @property
    def text(self) -> str:
        """The kinds for people."""
        return " | ".join(f"list of {kind[:-1]}" if kind.endswith("*") else kind for kind in self.kinds)


Fields = Mapping[str, Field]


@dataclass(frozen=True)
class Table:
    """The content of the file."""

    releases: tuple[str, ...]
    # other names of classes -> their names here
    aliases: Mapping[str, str]
    # names of the module -> (enum, member)
    constants: Mapping[str, tuple[str, str]]
    enums: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, Fields]
    # TTNN function -> its settings
    functions: Mapping[str, Fields]

    def takers(self, config: str) -> list[str]:
        """Returns the TTNN functions with a setting of this config class."""
        return [name for name, taken in self.functions.items() if any(config in field.kinds for field in taken.values())]


@cache
def table() -> Table:
    """Returns what all releases take together."""
    text = resources.files(__package__).joinpath("settings.yaml").read_text()
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # safe, and in C where there is one
    releases = tuple(content["releases"])

    def owners(listed: Mapping[str, Mapping[str, str]]) -> Mapping[str, Fields]:
        return {name: {n: _field(words, releases) for n, words in fields.items()} for name, fields in listed.items()}

    return Table(
        releases,
        content["aliases"],
        {name: tuple(member.split(".")) for name, member in content["constants"].items()},
        {name: tuple(members) for name, members in content["enums"].items()},
        owners(content["classes"]),
        owners(content["settings"]),
    )


def _field(words: str, releases: tuple[str, ...]) -> Field:
    """Reads ``KIND | KIND [required] [from RELEASE | up to RELEASE | in RELEASE ...]``."""
    required = False
    having = releases
    listed = words.split()
    for word in ("from", "up", "in"):
        if word in listed:
            position = listed.index(word)
            named, listed = [w for w in listed[position + 1 :] if w != "to"], listed[:position]
            first = releases.index(named[0])
            having = {"from": releases[first:], "up": releases[: first + 1], "in": tuple(named)}[word]
    if listed[-1] == "required":
        required = bool(listed.pop())
    return Field(tuple(word for word in listed if word != "|"), required, having)


@cache
def _settings(functions: tuple[str, ...], own: frozenset[str]) -> Fields:
    """Returns the settings of any of the functions, but for the ``own`` attributes of their operator."""
    merged: dict[str, Field] = {}
    for function in functions:
        for name, field in table().functions.get(function, {}).items():
            if name in own:
                continue
            known = merged.get(name)
            merged[name] = field if known is None else _joined(known, field)
    return MappingProxyType(merged)


def _joined(a: Field, b: Field) -> Field:
    having = [release for release in table().releases if release in (*a.releases, *b.releases)]
    return Field(_unique((*a.kinds, *b.kinds)), a.required and b.required, tuple(having))


def _unique(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def settings_of(info: OperatorInfo, functions: Iterable[str] | None = None) -> Fields:
    """Returns the settings of the TTNN functions that an operator calls, or of some of them, by name."""
    return _settings(tuple(info.functions if functions is None else functions), frozenset(info.attrs))
