"""Reads the master JSON of tt-metal's model tracer: configurations of operations, with what models and machines had them.

Releases of the tracer differ: configurations in a list or by their number, arguments as ``{"arg0": …}`` in a list or in one
object, tensors as objects or as C++ prints them, sources and machines beside the arguments or in ``executions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ssinghal.catalog.recorded.calls import Entry, Fault, RecordedCall, Refused
from ssinghal.catalog.recorded.values import read_value
from ssinghal.errors import InvalidCase

OPERATIONS = "operations"
_POSITION = re.compile(r"arg_?(\d{1,3})")
_ARGUMENTS = ("arguments", "args", "params")


def is_master(value: Any) -> bool:
    """Whether a JSON value holds operations with their configurations."""
    return isinstance(value, dict) and isinstance(value.get(OPERATIONS), (dict, list))


def entries(value: Mapping[str, Any], where: str) -> Iterator[Entry]:
    """Yields the call of every configuration."""
    for name, operation in _numbered(value[OPERATIONS], "operation_name"):
        configurations = operation.get("configurations", operation) if isinstance(operation, dict) else operation
        if not isinstance(configurations, (dict, list)):
            yield Fault(where, f"{name}: expected configurations")
            continue
        for number, configuration in _numbered(configurations, "config_id"):
            yield _entry(name.replace("::", "."), configuration, f"{where}: {name} {number}")


def _numbered(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yields the items of a list or an object, each with its name."""
    if isinstance(value, dict):
        yield from ((str(name), item) for name, item in value.items())
        return
    for number, item in enumerate(value, 1):
        own = item.get(key) if isinstance(item, dict) else None
        yield str(own) if isinstance(own, (str, int)) else f"configuration {number}", item


def _entry(function: str, configuration: Any, where: str) -> Entry:
    given = configuration
    if isinstance(configuration, dict):
        given = next((configuration[key] for key in _ARGUMENTS if key in configuration), None)
    if not isinstance(given, (dict, list)):
        return Fault(where, "expected arguments")
    function = function if function.startswith("ttnn.") else f"ttnn.{function}"
    try:
        args, kwargs = _arguments(given)
    except InvalidCase as error:
        return Refused(where, function, str(error))
    own = configuration if isinstance(configuration, dict) else {}
    model, count = _source(own)
    return RecordedCall(function, args, kwargs, model=model, where=where, count=count)


def _arguments(given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Returns positional and named arguments; those that are not recorded in between are None."""
    pairs: list[tuple[str, Any]] = []
    for number, item in enumerate(given if isinstance(given, list) else [given]):
        if isinstance(item, dict) and item and (not isinstance(given, list) or all(map(_is_name, item))):
            pairs += [(str(key), value) for key, value in item.items()]
        else:
            pairs.append((f"arg{number}", item))
    placed: dict[int, Any] = {}
    named: dict[str, Any] = {}
    for key, value in pairs:
        position = _POSITION.fullmatch(key)
        if key == "kwargs" and isinstance(value, dict):
            named |= {str(name): read_value(inner) for name, inner in value.items()}
        elif position:
            placed[int(position[1])] = read_value(value)
        else:
            named[key] = read_value(value)
    return [placed.get(at) for at in range(max(placed, default=-1) + 1)], named


def _is_name(key: str) -> bool:
    return bool(_POSITION.fullmatch(key)) or key == "kwargs"


def _source(configuration: Mapping[str, Any]) -> tuple[str, int]:
    """Returns the first source of a configuration, and how often it was called."""
    executions = configuration.get("executions")
    listed = [one for one in executions if isinstance(one, dict)] if isinstance(executions, list) else []
    found = [_text(one.get("source")) for one in [dict(configuration), *listed]]
    counts = [one.get("count", one.get("execution_count")) for one in listed or [dict(configuration)]]
    whole = [count for count in counts if type(count) is int and 0 < count < 2**53]
    return next((one for one in found if one), ""), sum(whole) or 1


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    return value if isinstance(value, str) else ""
