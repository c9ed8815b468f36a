"""Builds TTNN's objects from the settings of a case, and passes them to the functions that take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ssinghal.core.sharding import core_ranges
from ssinghal.errors import InvalidCase
from ssinghal.operators.settings.signatures import parameters
from ssinghal.operators.settings.table import Field, table


def built(ttnn: Any, value: Any, field: Field) -> Any:
    """Returns the object of TTNN for a canonical value. ``ttnn``: the module, or a transcript of it."""
    if isinstance(value, list) and any(kind.endswith("*") for kind in field.kinds):
        item = Field(tuple(kind.rstrip("*") for kind in field.kinds), True, field.releases)
        return [built(ttnn, one, item) for one in value]
    if isinstance(value, Mapping):
        return _config(ttnn, value)
    if "CoreRangeSet" in field.kinds and isinstance(value, (str, list)):
        return _cores(ttnn, value)
    if isinstance(value, list):
        columns, rows = value
        return ttnn.CoreGrid(x=columns, y=rows) if "CoreGrid" in field.kinds else ttnn.CoreCoord(columns, rows)
    enums = [kind for kind in field.kinds if kind in table().enums]
    return _member(ttnn, enums[0], value) if enums and isinstance(value, str) else value


def _config(ttnn: Any, value: Mapping[str, Any]) -> Any:
    kind = value["type"]
    if kind == "UnaryWithParam":
        return ttnn.UnaryWithParam(_member(ttnn, "UnaryOpType", value["op_type"]), *value.get("params", ()))
    return getattr(ttnn, kind)(**built_fields(ttnn, value))


def built_fields(ttnn: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments for the constructor of a config."""
    fields = table().classes[value["type"]]
    return {name: built(ttnn, item, fields[name]) for name, item in value.items() if name != "type"}


def _cores(ttnn: Any, value: str | list[Any]) -> Any:
    ranges = core_ranges(value, "cores").ranges if isinstance(value, str) else ()
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*start), ttnn.CoreCoord(*end)) for start, end in ranges])


def _member(ttnn: Any, enum: str, name: str) -> Any:
    """Returns a member by its name in the module, as ttnn.bfloat8_b, where it has one."""
    if enum == "DataType":
        return getattr(ttnn, name)
    named = {member: constant for constant, (owner, member) in table().constants.items() if owner == enum}
    return getattr(ttnn, named[name]) if name in named else getattr(getattr(ttnn, enum), name)


# Passing ----------------------------------------------------------------------------------------------------------------


class Passing:
    """``ttnn`` for an operator's call: each function gets the settings that are for it, whatever else the call passes."""

    def __init__(self, ttnn: Any, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """``settings``: function -> keywords."""
        self.ttnn = _Module(ttnn, "", self)
        self.settings = settings
        self.passed: set[str] = set()

    def check(self, operator: str) -> None:
        """Raises InvalidCase where the call did not make use of a setting."""
        unused = {name for keywords in self.settings.values() for name in keywords} - self.passed
        if unused:
            functions = " and ".join(f"ttnn.{function}" for function in self.settings)
            raise InvalidCase(f"{operator}: {', '.join(sorted(unused))} had no effect: this call does not run {functions}")


class _Module:
    """A module of TTNN whose functions get their settings."""

    def __init__(self, module: Any, path: str, passing: Passing) -> None:
        self._module, self._path, self._passing = module, path, passing

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._module, name), f"{self._path}{name}"
        keywords = self._passing.settings.get(path)
        if keywords is not None:
            return _with(value, keywords, self._passing.passed)
        if any(function.startswith(f"{path}.") for function in self._passing.settings):
            return _Module(value, f"{path}.", self._passing)
        return value


def _with(function: Callable[..., Any], keywords: Mapping[str, Any], passed: set[str]) -> Callable[..., Any]:
    def call(*args: Any, **others: Any) -> Any:
        passed.update(keywords)
        return function(*args, **{**others, **keywords})

    return call


# Releases ---------------------------------------------------------------------------------------------------------------


def lacking(ttnn: ModuleType, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the first setting that this release does not have, with the releases that do; empty where it has all.

    ``settings``: function -> settings, in canonical form. A function without a signature is taken to have them.
    """
    for path, given in settings.items():
        function: Any = ttnn
        for part in path.split("."):
            function = getattr(function, part, None)
        taken = parameters(function)
        for name, value in given.items():
            field = table().functions[path][name]
            if taken and name not in taken:
                return f"setting {name} of ttnn.{path}{_having(field)}"
            if missing := _lacking_value(ttnn, value, field):
                return missing
    return ""


def _lacking_value(ttnn: ModuleType, value: Any, field: Field) -> str:
    if isinstance(value, list) and any(kind.endswith("*") for kind in field.kinds):
        return next(filter(None, (_lacking_value(ttnn, item, field) for item in value)), "")
    if isinstance(value, Mapping):
        return _lacking_class(ttnn, value)
    enums = [kind for kind in field.kinds if kind in table().enums and kind != "DataType"]
    if enums and isinstance(value, str) and (enums[0], value) not in table().constants.values():
        members = getattr(getattr(ttnn, enums[0], None), "__members__", None)
        return f"ttnn.{enums[0]}.{value}" if members is None or value not in members else ""
    return ""


def _lacking_class(ttnn: ModuleType, value: Mapping[str, Any]) -> str:
    kind = value["type"]
    members = getattr(getattr(ttnn, "UnaryOpType", None), "__members__", {})
    if kind == "UnaryWithParam":
        return "" if value["op_type"] in members else f"ttnn.UnaryOpType.{value['op_type']}"
    fields = table().classes[kind]
    config = getattr(ttnn, kind, None)
    if config is None:
        return f"ttnn.{kind}{_having(next(iter(fields.values())))}"
    taken = parameters(config)
    for name, item in value.items():
        if name == "type":
            continue
        if taken and name not in taken:
            return f"field {name} of ttnn.{kind}{_having(fields[name])}"
        if missing := _lacking_value(ttnn, item, fields[name]):
            return missing
    return ""


def _having(field: Field) -> str:
    releases = table().releases
    if field.releases == releases:
        return ""
    if field.releases == releases[-len(field.releases) :]:
        return f"; {field.releases[0]} and later have it"
    return f"; {', '.join(field.releases)} {'has' if len(field.releases) == 1 else 'have'} it"
