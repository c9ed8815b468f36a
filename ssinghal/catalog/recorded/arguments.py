"""The arguments of a recorded call by TTNN's names, read one by one; what is left then is a setting or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssinghal.catalog.recorded.calls import (
    Member,
    OpenDevice,
    RecordedCall,
    RecordedTensor,
    Setting,
    TorchTensor,
    Value,
    shown,
    tensors_in,
)
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import DType
from ssinghal.errors import InvalidCase, cut

REQUIRED = object()
_SHOWN = 100


_NAMES = {"DataType": "dtype", "Layout": "layout", "CoreGrid": "core_grid", "Conv2dConfig": "conv_config"}


def _name_of(value: Value) -> str | None:
    """Returns the name that TTNN's functions have for the one argument of this type; None where there may be several."""
    if isinstance(value, MemoryRequest):
        return "memory_config"
    kind = value.kind if isinstance(value, (Member, Setting)) else ""
    if kind.endswith("ProgramConfig"):
        return "program_config"
    return "compute_kernel_config" if kind.endswith("ComputeKernelConfig") else _NAMES.get(kind)


class Arguments:
    """``parameters``: names of those that can be given by position, in TTNN's order."""

    def __init__(self, call: RecordedCall, parameters: Sequence[str]) -> None:
        named = dict(zip(parameters, call.args, strict=False))
        for value in call.args[len(parameters) :]:
            if value is not None:
                name = _name_of(value)
                if name is None or name in named:
                    raise InvalidCase(
                        f"{len(call.args)} arguments without names, of which {cut(shown(value), _SHOWN)} is not known"
                    )
                named[name] = value
        twice = named.keys() & call.kwargs.keys()
        if twice:
            raise InvalidCase(f"{', '.join(sorted(twice))} is given twice")
        self._values: dict[str, Value] = {
            name: value for name, value in {**named, **call.kwargs}.items() if not isinstance(value, OpenDevice)
        }
        self.call = call

    def take(self, name: str, default: Any = None) -> Value:
        """Returns an argument, which is read then; ``default`` where it is absent or None."""
        value = self._values.pop(name, None)
        if value is not None:
            return value
        if default is REQUIRED:
            raise InvalidCase(f"{name} is not recorded")
        return default

    def give(self, name: str, value: Value) -> None:
        """Sets an argument, in place of others that state the same."""
        self._values[name] = value

    def rest(self) -> dict[str, Value]:
        """Returns the arguments that are not read yet, but those that are None."""
        return {name: value for name, value in self._values.items() if value is not None}

    def tensor(self, name: str) -> RecordedTensor | None:
        value = self.take(name)
        if isinstance(value, TorchTensor):
            raise InvalidCase(f"{name} is a tensor of torch")
        if value is not None and not isinstance(value, RecordedTensor):
            raise self._wrong(name, value, "a tensor")
        return value

    def tensors(self, name: str) -> list[RecordedTensor]:
        value = self.take(name, REQUIRED)
        found = list(tensors_in(value))
        if not isinstance(value, list) or len(found) != len(value):
            raise self._wrong(name, value, "a list of tensors")
        return found

    def integer(self, name: str, default: Any = REQUIRED) -> int:
        value = self.take(name, default)
        if type(value) is not int:
            raise self._wrong(name, value, "a whole number")
        return value

    def integers(self, name: str, default: Any = REQUIRED) -> list[int]:
        """Returns a list of whole numbers, or one of them as a list."""
        value = self.take(name, default)
        listed = [value] if type(value) is int else value
        if not isinstance(listed, list) or not all(type(item) is int for item in listed):
            raise self._wrong(name, value, "whole numbers")
        return listed

    def number(self, name: str, default: Any = REQUIRED) -> float:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, value, "a number")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.take(name, default)
        if value not in (True, False, 0, 1):
            raise self._wrong(name, value, "true or false")
        return bool(value)

    def word(self, name: str, default: Any = REQUIRED) -> str:
        """Returns a text, or the name of a member of an enumeration, in lower case."""
        value = self.take(name, default)
        if isinstance(value, Member):
            value = value.name
        if not isinstance(value, str):
            raise self._wrong(name, value, "a name")
        return value.lower()

    def dtype(self, name: str) -> DType | None:
        return None if self._values.get(name) is None else dtype_named(self.word(name))

    def memory(self, name: str) -> MemoryRequest | None:
        value = self.take(name)
        if value is not None and not isinstance(value, MemoryRequest):
            raise self._wrong(name, value, "a memory config")
        return value

    def _wrong(self, name: str, value: Value, expected: str) -> InvalidCase:
        return InvalidCase(f"{name} is {cut(shown(value), _SHOWN)}; expected {expected}")
