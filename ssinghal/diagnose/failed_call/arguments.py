"""Makes the arguments of a call again from what ``tracker.arguments`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

from ssinghal.errors import InvalidCase


class ArgumentReader:
    """``tensors``: the operands, by their index."""

    def __init__(self, ttnn: Any, device: Any, tensors: Sequence[Any]) -> None:
        self._module, self._device, self._tensors = ttnn, device, tensors

    def read(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns positional and keyword arguments.

        Raises:
            InvalidCase: one cannot be made again.
        """
        try:
            args = [self._value(value) for value in arguments["args"]]
            return args, {name: self._value(value) for name, value in arguments["kwargs"].items()}
        except (AttributeError, ImportError, TypeError) as error:
            raise InvalidCase(f"an argument cannot be made again: {' '.join(str(error).split())}") from error

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self._tensors[value["tensor"]]
        if "device" in value:
            return self._device
        if "name" in value:  # of a constant, in a changed call
            return reduce(getattr, value["name"].split("."), self._module)
        if "tuple" in value:
            return tuple(self._value(item) for item in value["tuple"])
        if "dict" in value:
            return {key: self._value(item) for key, item in value["dict"].items()}
        if "enum" in value:
            return getattr(_class(*value["enum"][:2]), value["enum"][2])
        if "object" in value:
            return self._object(value)
        if "torch" in value:
            return self._torch(*value["torch"])
        raise InvalidCase(f"an argument cannot be made again: {value.get('unknown', value)}")

    def _object(self, value: Mapping[str, Any]) -> Any:
        kind = _class(*value["object"])
        if "json" in value:
            return kind.from_json(value["json"])
        fields = {name: self._value(field) for name, field in value["fields"].items()}
        if "op_type" in fields:  # a unary operation, whose parameters have no names
            return kind(fields["op_type"], *fields.get("params", ()))
        try:
            made = kind()
        except TypeError:  # it has no defaults
            taken = kind.__init__.__doc__ or ""  # its signature; what is derived from other fields is not in it
            return kind(**{name: field for name, field in fields.items() if f"{name}: " in taken or not taken})
        for name, field in fields.items():
            if getattr(made, name) != field:
                setattr(made, name, field)
        return made

    def _torch(self, shape: Sequence[int], dtype: str) -> Any:
        known = {"float32", "bfloat16", "int32", "uint8"}
        if dtype not in known:
            raise InvalidCase(f"a tensor of torch in {dtype} is not made again")
        return self._module.to_torch(self._module.zeros(list(shape), dtype=getattr(self._module, dtype)))


def _class(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), import_module(module))
