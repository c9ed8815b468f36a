"""Writes recorded arguments as attributes of cases: settings in the JSON that ``operators.settings`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssinghal.catalog.recorded.calls import Member, RecordedTensor, Setting, TorchTensor, Unread, Value, shown
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.errors import InvalidCase, cut

_SHOWN = 100
_ACTIVATION = "UnaryWithParam"
_UNARY = "UnaryOpType"
_NUMBERED = ("EXP", "RECIP", "GELU")  # operations that have the same number in all releases
_DERIVED = {"CoreGrid": ("num_cores",)}  # fields that follow from the others


def attribute(value: Value) -> Any:
    """Returns an argument as attributes of cases have it.

    Raises:
        InvalidCase: It has no such form.
    """
    if isinstance(value, Member):
        return {"name": str(value)}
    if isinstance(value, Setting):
        return _setting(value)
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [attribute(item) for item in _flattened(value)]
    if isinstance(value, MemoryRequest):
        return str(value)
    if isinstance(value, (Unread, RecordedTensor, TorchTensor, slice)):
        raise InvalidCase(f"{cut(shown(value), _SHOWN)} is no attribute of a case")
    return value


def _setting(value: Setting) -> Any:
    fields = {name: item for name, item in value.fields.items() if name not in _DERIVED.get(value.kind, ())}
    if fields.keys() == {""}:  # an object that TTNN writes as a list
        return attribute(fields[""])
    if fields and all(name.isdecimal() for name in fields):
        return {"type": value.kind, "args": [attribute(item) for item in fields.values()]}
    return {"type": value.kind, **{name: attribute(item) for name, item in fields.items()}}


def _plain_object(value: Mapping[str, Any]) -> Any:
    """Returns cores as lists of numbers, and a fused activation by its name."""
    if value.keys() == {"x", "y"}:
        return [value["x"], value["y"]]
    if value.keys() == {"start", "end"}:
        return [attribute(value["start"]), attribute(value["end"])]
    if "op_type" in value:
        return {
            "type": _ACTIVATION,
            "op_type": _operation(value["op_type"]),
            "params": value.get("param", []),
        }
    return {name: attribute(item) for name, item in value.items()}


def _operation(value: Value) -> Any:
    """Returns the operation of an activation. TTNN's JSON has it by its number, which differs between releases."""
    if type(value) is int:
        if not 0 <= value < len(_NUMBERED):
            raise InvalidCase(f"fused_activation is operation {value} of {_UNARY}; which one differs between releases of TTNN")
        return {"name": f"{_UNARY}.{_NUMBERED[value]}"}
    return attribute(value)


def _flattened(value: list[Any]) -> list[Any]:
    """Returns core ranges without the brackets that TTNN prints around each."""
    if value and all(isinstance(item, list) and len(item) == 1 and _is_range(item[0]) for item in value):
        return [item[0] for item in value]
    return value


def _is_range(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"start", "end"}
