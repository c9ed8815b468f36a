"""Writes the arguments of a call as JSON from which they can be made again elsewhere.

None, numbers, texts and lists are written as they are; anything else as an object with one of these keys:

``tensor``   index of the operand in ``in`` of the call.
``torch``    [shape, dtype] of a tensor of torch.
``device``   the device.
``tuple``, ``dict``  its items.
``enum``     a member of an enumeration of TTNN, as [module, class, name].
``object``   an object of TTNN, as [module, class], with ``json`` (TTNN's own) or else with ``fields``; beside ``json``,
             ``fused_activation`` where it has one, with the name of the operation.
``unknown``  the start of its representation: it cannot be made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import count
from typing import Any

LIMIT_BYTES = 16_000  # of all arguments of a call
ACTIVATION = "fused_activation"
_TEXT, _DEPTH = 200, 8


class ArgumentWriter:
    """Writes the arguments of one call."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self._module, self._device = ttnn, device
        self._operands = count()

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Returns ``{"args": …, "kwargs": …}``; None where they would take more than ``LIMIT_BYTES``."""
        if args and isinstance(args[0], type(self._module.relu)):
            args = args[1:]  # the operation itself
        values = {"args": [self._value(value) for value in args], "kwargs": {k: self._value(v) for k, v in kwargs.items()}}
        return values if len(json.dumps(values)) <= LIMIT_BYTES else None

    def _value(self, value: Any, depth: int = _DEPTH) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float) or (kind is str and len(value) <= _TEXT):
            return value
        if isinstance(value, self._module.Tensor):
            return {"tensor": next(self._operands)}
        if value is self._device:
            return {"device": True}
        if isinstance(value, self._module.Shape):
            return list(value)
        if not depth:
            return {"unknown": repr(value)[:_TEXT]}
        if kind is list:
            return [self._value(item, depth - 1) for item in value]
        if kind is tuple:
            return {"tuple": [self._value(item, depth - 1) for item in value]}
        if kind is dict and all(type(key) is str for key in value):
            return {"dict": {key: self._value(item, depth - 1) for key, item in value.items()}}
        module = kind.__module__.partition(".")[0]
        if module == "torch" and hasattr(value, "shape") and hasattr(value, "dtype"):
            return {"torch": [list(value.shape), str(value.dtype).removeprefix("torch.")]}
        if module == "ttnn":
            return self._object(value, depth)
        return {"unknown": repr(value)[:_TEXT]}

    def _object(self, value: Any, depth: int) -> dict[str, Any]:
        kind = type(value)
        known_as = [kind.__module__, kind.__qualname__]
        if isinstance(value, Enum):
            return {"enum": [*known_as, value.name]}
        if hasattr(value, "to_json"):
            activation = getattr(
                value, ACTIVATION, None
            )  # TTNN's JSON has the number of its operation, which is a release's own
            named = {} if activation is None else {ACTIVATION: self._value(activation, depth - 1)}
            return {"object": known_as, "json": value.to_json(), **named}
        names = [name for name in dir(kind) if not name.startswith("_") and not callable(getattr(value, name))]
        return {"object": known_as, "fields": {name: self._value(getattr(value, name), depth - 1) for name in names}}
