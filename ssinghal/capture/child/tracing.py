"""The recorder of a trace: every call in order, with the identity and the lifetime of the tensors it takes and gives.

A value is a view of a storage: (storage, offset, shape, strides, dtype). Calls that return what they were given (dropout in
evaluation, contiguous of what is so already) then merge by themselves. A value dies when the last Python object of it does.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_iter

from ssinghal.capture.child.meta import MetaMode, written
from ssinghal.capture.child.recorder import MADE_LIKE, MAX_CALLS, NOT_ARGUMENTS, TooManyCalls, plain
from ssinghal.operators.unmapped import NO_DEVICE_CALL
from ssinghal.trace import Step, Value, ValueKind

# Calls that take shape or dtype from their second operand, but no value.
TAKES_FORM_ONLY = frozenset({"expand_as", "reshape_as", "type_as", "view_as"})
_Key = tuple[int, int, tuple[int, ...], tuple[int, ...], torch.dtype]


class TraceRecorder(MetaMode):
    """``steps`` and ``values`` of the forward; ``left_out``: how many calls are no steps, by kind."""

    def __init__(self, where: Callable[[], str], root: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__(where)
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.left_out: Counter[str] = Counter()
        self._numbers: dict[_Key, int] = {}
        self._storages: dict[int, tuple[int, Any]] = {}  # holds them, so that no address is used twice
        self._active: set[int] = set()
        self._objects: Counter[int] = Counter()
        self._watched: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._dead: list[int] = []
        named = (*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False))
        self._names = {tensor.untyped_storage()._cdata: name for name, tensor in reversed(list(named))}
        for number, tensor in enumerate(inputs):
            self._active.add(self._storage(tensor))
            self._new(tensor, ValueKind.INPUT, f"input {number}")
            self._watch(tensor)

    def results_of(self, returned: Any) -> tuple[int, ...]:
        """The values that forward returns, each once."""
        tensors = [t for t in tree_iter(returned) if isinstance(t, torch.Tensor) and self._key(t) in self._numbers]
        return tuple(dict.fromkeys(self._numbers[self._key(t)] for t in tensors))

    def finish(self) -> None:
        self._bury()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._bury()
        result = super().run(func, args, kwargs)
        name = func._schema.name.partition("::")[2]
        given = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        made = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
        changed = list(written(func, args, kwargs))
        if name in TAKES_FORM_ONLY:
            given = given[:1]
        if not any(self._storage(t) in self._active for t in given):
            self.left_out["constants"] += 1
            return result
        if name not in MADE_LIKE:
            self._active |= {self._storage(t) for t in (*made, *changed)}
        if name in NO_DEVICE_CALL or not made:
            self.left_out["bookkeeping"] += 1
        elif not changed and all(self._key(t) in self._numbers for t in made):
            self.left_out["same tensor"] += 1
        elif name in MADE_LIKE:
            self.left_out["constants"] += 1
        else:
            self._record(func, args, kwargs, made, changed)
        for tensor in made:
            self._watch(tensor)
        return result

    def _record(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: list[torch.Tensor], changed: list[torch.Tensor]
    ) -> None:
        if len(self.steps) >= MAX_CALLS:
            raise TooManyCalls
        operands: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for i, argument in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            if isinstance(value, torch.Tensor):
                operands[argument.name] = self._number(value)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
                operands[argument.name] = tuple(None if v is None else self._number(v) for v in value)
            elif value is not None and argument.name not in NOT_ARGUMENTS:
                given = plain(value)
                if not argument.has_default_value() or given != plain(argument.default_value):
                    others[argument.name] = given
        through_view = any(self._has_other_views(t) for t in changed)
        where = self.where()
        results = tuple(self._new(t, ValueKind.ACTIVATION, where) for t in made)
        overload = f"{func._schema.name.replace('::', '.')}.{func._overloadname}"
        self.steps.append(Step(overload, operands, others, results, where, writes=through_view))

    # Identity -----------------------------------------------------------------------------------------------------------

    def _storage(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        return self._storages.setdefault(storage._cdata, (len(self._storages), storage))[0]

    def _key(self, tensor: torch.Tensor) -> _Key:
        return (
            self._storage(tensor), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype,
        )  # fmt: skip

    def _number(self, tensor: torch.Tensor) -> int:
        """Of an operand: one that no call has made is there from the start."""
        found = self._numbers.get(self._key(tensor))
        if found is not None:
            return found
        if self._storage(tensor) in self._active:  # made by a call that is no step, as an alias of an active storage
            return self._new(tensor, ValueKind.CONSTANT, self.where())
        name = self._names.get(tensor.untyped_storage()._cdata, "")
        return self._new(tensor, ValueKind.WEIGHT if name else ValueKind.CONSTANT, name or self.where())

    def _new(self, tensor: torch.Tensor, kind: ValueKind, name: str) -> int:
        key = self._key(tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.values.append(Value(tuple(tensor.shape), dtype, kind, key[0], name))
        self._numbers[key] = len(self.values) - 1
        return self._numbers[key]

    def _has_other_views(self, tensor: torch.Tensor) -> bool:
        """Whether live values of its storage are other views than the one that is written."""
        key = self._key(tensor)
        return any(other[0] == key[0] and other != key and self._objects[n] for other, n in self._numbers.items())

    # Lifetime -----------------------------------------------------------------------------------------------------------

    def _watch(self, tensor: torch.Tensor) -> None:
        number = self._numbers.get(self._key(tensor))
        if number is None:
            return
        known = self._watched.get(id(tensor))
        if known is not None and known[1]() is tensor:
            if known[0] == number:
                return
            self._objects[known[0]] -= 1  # written in place: the same object is a new value now
            if not self._objects[known[0]]:
                self._dead.append(known[0])
        mark = id(tensor)
        self._objects[number] += 1
        self._watched[mark] = (number, weakref.ref(tensor, lambda _: self._gone(mark)))

    def _gone(self, mark: int) -> None:
        number, _ = self._watched.pop(mark)
        self._objects[number] -= 1
        if not self._objects[number]:
            self._dead.append(number)

    def _bury(self) -> None:
        """What died since the last call belongs to it."""
        dead = [n for n in dict.fromkeys(self._dead) if not self._objects[n]]
        self._dead.clear()
        if dead and self.steps:
            last = self.steps[-1]
            self.steps[-1] = Step(
                last.overload, last.operands, last.args, last.results, last.at, (*last.dead, *dead), last.writes
            )


__all__ = ["TraceRecorder"]
