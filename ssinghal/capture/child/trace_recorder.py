"""Records a trace: every call in order, with the identity and the lifetime of its operands and results.

A value is a view of a storage: (storage, offset, shape, strides, dtype). Calls that return an operand unchanged (dropout in
evaluation, contiguous of a contiguous tensor) therefore merge by themselves. A value dies with the last Python object of its
view. One that is written in place dies at that call, and all objects of its view belong to the new value from then on. The
garbage collector is off in this process, so that what the model ties up in cycles stays to the end, each time.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_iter

from ssinghal.capture.child.call_recorder import MADE_LIKE, MAX_CALLS, NOT_ARGUMENTS, TooManyCalls, plain
from ssinghal.capture.child.meta_device import MetaMode, written
from ssinghal.capture.trace import Step, Value, ValueKind
from ssinghal.operators.unsupported import NO_DEVICE_CALL

# Calls that take only shape or dtype from their second operand.
TAKES_FORM_ONLY = frozenset({"expand_as", "reshape_as", "type_as", "view_as"})
_Key = tuple[int, int, tuple[int, ...], tuple[int, ...], torch.dtype]


class TraceRecorder(MetaMode):
    """Records ``steps`` and ``values`` of the forward; ``left_out`` is the number of calls that are no steps, by kind."""

    def __init__(self, where: Callable[[], str], root: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__(where)
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.left_out: Counter[str] = Counter()
        self._numbers: dict[_Key, int] = {}
        self._storages: dict[int, tuple[int, Any]] = {}  # holds them, so that no address is used twice
        self._active: set[int] = set()
        self._twins: dict[_Key, _Key] = {}
        self._views: defaultdict[int, set[_Key]] = defaultdict(set)
        self._objects: Counter[_Key] = Counter()
        self._watched: dict[int, tuple[_Key, weakref.ref[Any]]] = {}
        self._dead: list[int] = []
        named = (*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False))
        self._names = {tensor.untyped_storage()._cdata: name for name, tensor in reversed(list(named))}
        for number, tensor in enumerate(inputs):
            self._active.add(self._storage(tensor))
            self._new(tensor, ValueKind.INPUT, f"input {number}")
            self._watch(tensor)

    def results_of(self, returned: Any) -> tuple[int, ...]:
        """Returns the numbers of the values that forward returns, each once."""
        keys = map(self._key, tensors_in(returned))
        return tuple(dict.fromkeys(self._numbers[key] for key in keys if key in self._numbers))

    def finish(self) -> None:
        self._bury()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._bury()
        result = super().run(func, args, kwargs)
        name = func._schema.name.partition("::")[2]
        operands = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        results = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
        changed = list(written(func, args, kwargs))
        self._pair(changed, _aliases(func, results))
        if name in TAKES_FORM_ONLY:
            operands = operands[:1]
        for tensor in (*operands, *results):
            self._views[self._storage(tensor)].add(self._key(tensor))
        if not any(self._storage(t) in self._active for t in operands):
            self.left_out["constants"] += 1
            return result
        if name not in MADE_LIKE:
            self._active |= {self._storage(t) for t in (*results, *changed)}
        if name in NO_DEVICE_CALL:
            self.left_out["bookkeeping"] += 1
        elif not (results or changed):
            self.left_out["without_result"] += 1
        elif name in MADE_LIKE:
            self.left_out["constants"] += 1
        elif not changed and all(map(self._is_alive, results)):
            self.left_out["same_tensor"] += 1
        else:
            self._record(func, args, kwargs, results, changed)
        for tensor in (*results, *changed):
            self._watch(tensor)
        return result

    def _record(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        returned: list[torch.Tensor],
        changed: list[torch.Tensor],
    ) -> None:
        if len(self.steps) >= MAX_CALLS:
            raise TooManyCalls
        operands: dict[str, Any] = {}
        others: dict[str, Any] = {}
        form_only = func._schema.name.partition("::")[2] in TAKES_FORM_ONLY
        for i, argument in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            if isinstance(value, torch.Tensor):
                if not (form_only and i):
                    operands[argument.name] = self._number(value)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
                operands[argument.name] = tuple(None if v is None else self._number(v) for v in value)
            elif value is not None and argument.name not in NOT_ARGUMENTS:
                setting = plain(value)
                if not argument.has_default_value() or setting != plain(argument.default_value):
                    others[argument.name] = setting
        through_view = any(self._has_other_views(t) for t in changed)
        where = self.where()
        tensors = returned if len(_aliases(func, returned)) == len(changed) else [*returned, *changed]
        results: dict[_Key, int] = {}  # one that is returned twice is one value
        for tensor in tensors:
            if self._key(tensor) not in results:
                results[self._key(tensor)] = self._new(tensor, ValueKind.ACTIVATION, where)
        numbers = tuple(results[self._key(t)] for t in tensors)
        overload = f"{func._schema.name.replace('::', '.')}.{func._overloadname}"
        self.steps.append(Step(overload, operands, others, numbers, where, writes=through_view))

    # Identity -----------------------------------------------------------------------------------------------------------

    def _storage(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        return self._storages.setdefault(storage._cdata, (len(self._storages), storage))[0]

    def _key(self, tensor: torch.Tensor) -> _Key:
        key = (self._storage(tensor), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        return self._twins.get(key, key)

    def _pair(self, changed: Sequence[torch.Tensor], aliases: Sequence[torch.Tensor]) -> None:
        """Makes a real tensor that is written, and the meta one that is returned for it, the same view from then on."""
        if len(changed) == len(aliases):
            for real, alias in zip(changed, aliases, strict=True):
                if not real.is_meta:
                    self._twins[self._key(alias)] = self._key(real)

    def _number(self, tensor: torch.Tensor) -> int:
        """Returns the number of an operand; one that no call has created exists from the start."""
        known = self._numbers.get(self._key(tensor))
        if known is not None:
            return known
        if self._storage(tensor) in self._active:  # created by a call that is no step, as an alias of an active storage
            return self._new(tensor, ValueKind.CONSTANT, self.where())
        name = self._names.get(tensor.untyped_storage()._cdata, "")
        return self._new(tensor, ValueKind.WEIGHT if name else ValueKind.CONSTANT, name or self.where())

    def _new(self, tensor: torch.Tensor, kind: ValueKind, name: str) -> int:
        key = self._key(tensor)
        if self._objects[key]:
            self._dead.append(self._numbers[key])  # the objects of this view belong to the new value now
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.values.append(Value(tuple(tensor.shape), dtype, kind, key[0], name))
        self._numbers[key] = len(self.values) - 1
        self._views[key[0]].add(key)
        return self._numbers[key]

    def _is_alive(self, tensor: torch.Tensor) -> bool:
        """Whether it is a live value: a view that is taken again after its objects were gone is a new one."""
        key = self._key(tensor)
        return key in self._numbers and (self._objects[key] > 0 or self.values[self._numbers[key]].is_resident)

    def _has_other_views(self, tensor: torch.Tensor) -> bool:
        """Whether its storage may be read through other views than the written one. Of constants all count."""
        key = self._key(tensor)
        others = self._views[key[0]] - {key}
        return any(self._objects[o] or o not in self._numbers or self.values[self._numbers[o]].is_resident for o in others)

    # Lifetime -----------------------------------------------------------------------------------------------------------

    def _watch(self, tensor: torch.Tensor) -> None:
        key = self._key(tensor)
        if key not in self._numbers or self.values[self._numbers[key]].is_resident:
            return
        mark = id(tensor)
        known = self._watched.get(mark)
        if known is not None and known[1]() is tensor:
            if known[0] == key:
                return
            self._release(known[0])  # transposed in place, or the like
        self._objects[key] += 1
        self._watched[mark] = (key, weakref.ref(tensor, lambda _: self._release(self._watched.pop(mark)[0])))

    def _release(self, key: _Key) -> None:
        self._objects[key] -= 1
        if not self._objects[key]:
            self._dead.append(self._numbers[key])

    def _bury(self) -> None:
        """Adds the values that died since the last call to that call."""
        dead = tuple(dict.fromkeys(self._dead))
        self._dead.clear()
        if dead and self.steps:
            self.steps[-1] = replace(self.steps[-1], dead=(*self.steps[-1].dead, *dead))


def _aliases(func: Any, returned: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of a call that are operands it wrote."""
    returns = func._schema.returns
    return [t for t, one in zip(returned, returns, strict=False) if one.alias_info is not None and one.alias_info.is_write]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of what a model returns, also those in dataclasses."""
    for leaf in tree_iter(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            for each in fields(leaf):
                yield from tensors_in(getattr(leaf, each.name))
