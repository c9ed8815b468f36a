"""Values as JSON has them: what a dataclass is written as, and the bounds of the numbers that are read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any


class Bounds:
    """Limits of a number in an annotation. Pydantic applies them where it reads; nothing is imported for them here."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(source), **self._limits}


Bytes = Annotated[int, Bounds(ge=0, lt=2**63)]
Count = Annotated[int, Bounds(ge=1, lt=2**63)]
Finite = Annotated[float, Bounds(ge=0, allow_inf_nan=False)]
Dims = tuple[Bytes, ...]


def fields_of(value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by name, as they are."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def plain(value: Any) -> Any:
    """Returns ``value`` as JSON has it: dataclasses and mappings as objects, tuples as arrays, enums as their text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    return plain(fields_of(value)) if is_dataclass(value) else value


def value_text(value: Any) -> str:
    """Returns the value of an attribute for people: a config as the Python that makes it, as it can be typed again.

    >>> value_text({"type": "SDPAProgramConfig", "q_chunk_size": 32})
    'SDPAProgramConfig(q_chunk_size=32)'
    """
    if isinstance(value, Mapping) and "type" in value:
        fields = ", ".join(f"{name}={value_text(item)}" for name, item in value.items() if name != "type")
        return f"{value['type']}({fields})"
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value)


def without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``values`` as JSON has them, without those that are None or an empty text."""
    return {key: plain(value) for key, value in values.items() if value not in (None, "")}
