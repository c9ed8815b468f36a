"""Values as JSON has them: what a dataclass is written as, and the bounds of the numbers that are read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any


class Bounds:
    """Limits of a number in an annotation. Pydantic applies them where it reads; nothing is imported for them here."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(source), **self._limits}


Bytes = Annotated[int, Bounds(ge=0, lt=2**63)]
# What a call requests, which no device may have: a tensor has up to eight sizes of 32 bits, and 4 B an element. Also what TTNN
# states of an allocation: its unsigned numbers may wrap.
SIZE_BITS = 8 * 32 + 16
RequestedBytes = Annotated[int, Bounds(ge=0, lt=2**SIZE_BITS)]
Count = Annotated[int, Bounds(ge=1, lt=2**63)]
Finite = Annotated[float, Bounds(ge=0, allow_inf_nan=False)]
Number = Annotated[float, Bounds(allow_inf_nan=False)]
Dims = tuple[Bytes, ...]
# Whatever ends a line for a terminal, a viewer or ``str.splitlines``: in a name it would make lines of output.
LINE = r"^[^\n\v\f\r\x1c-\x1e\x85\u2028\u2029]*$"
LineText = Annotated[str, Bounds(pattern=LINE)]  # a text that stands in a line of output


def fields_of(value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by name, as they are."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def plain(value: Any) -> Any:
    """Returns ``value`` as JSON has it: dataclasses and mappings as objects, tuples as arrays, enums as their text."""
    kind: Any = type(value)
    return value if kind in _AS_THEY_ARE else _plain_of(kind)(value)


def plain_values(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns the attributes of these names as JSON has them."""
    found = {name: getattr(value, name) for name in names}
    return {name: item if type(item) in _AS_THEY_ARE else plain(item) for name, item in found.items()}


# Most values are as they are, as a record has a hundred: they are not worth a call.
_AS_THEY_ARE = frozenset({int, str, float, bool, type(None)})


@cache
def _plain_of(kind: Any) -> Callable[[Any], Any]:
    """Returns what makes plain values of this type."""
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, Mapping):
        return lambda value: {plain(key): item if type(item) in _AS_THEY_ARE else plain(item) for key, item in value.items()}
    if issubclass(kind, (list, tuple)):
        return lambda value: [item if type(item) in _AS_THEY_ARE else plain(item) for item in value]
    if hasattr(kind, "to_json"):
        return lambda value: value.to_json()
    if is_dataclass(kind):
        return partial(plain_values, names=tuple(field.name for field in fields(kind)))
    return lambda value: value


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
