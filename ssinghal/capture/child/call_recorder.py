"""Records every call of a model's forward, by a dispatch mode."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.utils._pytree import tree_iter

from ssinghal.capture.catalog_lines import Operand, RecordedCall
from ssinghal.capture.child.meta_device import MetaMode, settle, written
from ssinghal.catalog.field_types import TORCH_DTYPES
from ssinghal.core.tensors import MAX_RANK
from ssinghal.operators.unsupported import NO_DEVICE_CALL

MAX_CALLS = 20_000  # a model's forward makes hundreds to thousands; code that loops over boxes makes many more
TOP = "(top)"

# Calls whose results take shape and dtype from an operand, but no value.
MADE_LIKE = frozenset({"full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"})
# Where a tensor is and how fast it gets there is the catalog's placement, not an argument.
NOT_ARGUMENTS = frozenset({"copy", "device", "generator", "layout", "memory_format", "non_blocking", "pin_memory"})


class TooManyCalls(Exception):
    """The forward makes too many calls; those recorded until then are kept."""


class ModulePaths:
    """The path of the innermost module that is running.

    A module outside the root (kept in a plain list, created in forward) is settled in the root's ``dtype`` when it first runs,
    and has the path of the module that runs it. A module in several places has the first of its paths below the module that
    runs it, as an activation that all blocks share.
    """

    def __init__(self, root: torch.nn.Module, dtype: torch.dtype) -> None:
        self._names: dict[int, list[str]] = {}
        for name, module in root.named_modules(remove_duplicate=False):
            self._names.setdefault(id(module), []).append(name)
        self._dtype = dtype
        self._outside: dict[int, torch.nn.Module] = {}  # holds them, so that no id is used twice
        self._running: list[str] = []
        self._raised: tuple[BaseException | None, str] = (None, TOP)

    def __call__(self) -> str:
        return self._running[-1] if self._running else TOP

    def of(self, error: BaseException) -> str:
        """Returns the path of the innermost module that this exception left."""
        return self._raised[1] if self._raised[0] is error else self()

    @contextmanager
    def followed(self) -> Iterator[None]:
        handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if id(module) not in self._names and id(module) not in self._outside:
            self._outside |= {id(part): part for part in module.modules()}
            settle(module, self._dtype)
        names = self._names.get(id(module), [])
        below = f"{self._running[-1]}." if self._running and self() != TOP else ""
        name = next((name for name in names if name.startswith(below)), names[0] if names else "")
        self._running.append(name or self())

    def _leave(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        path, raised = self._running.pop(), sys.exc_info()[1]
        if raised is not None and raised is not self._raised[0]:
            self._raised = (raised, path)


class ForwardRecorder(MetaMode):
    """Records the ``calls`` of the forward; ``left_out`` is the number of those that are not listed, by kind.

    A tensor is an activation if it holds anything computed from the model's inputs. Its storage decides, so that views and
    writes in place are followed. Calls without an activation happen once, when a model is loaded: they are left out as
    constants.
    """

    def __init__(self, where: ModulePaths, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__(where)
        self.calls: list[RecordedCall] = []
        self.left_out: Counter[str] = Counter()
        self._activations: dict[int, torch.UntypedStorage] = {}  # holds them, so that no address is used twice
        for tensor in inputs:
            self._mark(tensor)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().run(func, args, kwargs)
        name = func._schema.name.partition("::")[2]
        active = any(self._is_activation(t) for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor))
        unchanged = bool(args) and result is args[0] and not func._schema.is_mutable  # e.g. contiguous of a contiguous tensor
        if active:
            results = [] if name in MADE_LIKE else [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
            for tensor in (*results, *written(func, args, kwargs)):
                self._mark(tensor)
        if name in NO_DEVICE_CALL or unchanged or _does_nothing(func, args, kwargs):
            self.left_out["bookkeeping"] += 1
        elif not active:
            self.left_out["constants"] += 1
        elif reason := _no_line((args, kwargs, result), result):
            self.left_out[reason] += 1
        else:
            self._record(func, args, kwargs, result)
        return result

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if len(self.calls) >= MAX_CALLS:
            raise TooManyCalls
        operands, others = [], {}
        for i, argument in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            if isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and _any_tensor(value)):
                operands.append(self._operand(argument.name, value))
            elif value is not None and argument.name not in NOT_ARGUMENTS:
                setting = plain(value)
                if not argument.has_default_value() or setting != plain(argument.default_value):
                    others[argument.name] = setting
        tensors = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
        shapes = [tuple(t.shape) for t in tensors]
        out = tuple(shapes) if "List" in str(func._schema.returns[0].type) else shapes[0]
        overload = f"{func._schema.name.replace('::', '.')}.{func._overloadname}"
        self.calls.append(RecordedCall(overload, tuple(operands), others, out, _name(tensors[0].dtype), self.where()))

    def _operand(self, name: str, value: Any) -> Operand:
        if isinstance(value, torch.Tensor):
            return Operand(name, tuple(value.shape), _name(value.dtype), not self._is_activation(value))
        tensors = [t for t in value if isinstance(t, torch.Tensor)]
        shapes = tuple(None if t is None else tuple(t.shape) for t in value)
        return Operand(name, shapes, _name(tensors[0].dtype), not any(map(self._is_activation, tensors)))

    def _mark(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._activations[storage._cdata] = storage

    def _is_activation(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._activations


def _does_nothing(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call returns its operand: dropout outside training."""
    if func._schema.name not in ("aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::native_dropout"):
        return False
    return not (args[2] if len(args) > 2 else kwargs.get("train", True))


def _no_line(everything: Any, result: Any) -> str:
    """Returns why a call cannot be a line of a catalog: it returns nothing, or has a tensor that no line can hold."""
    if not any(isinstance(t, torch.Tensor) for t in tree_iter(result)):
        return "without_result"
    tensors = [t for t in tree_iter(everything) if isinstance(t, torch.Tensor)]
    return "beyond_catalogs" if any(t.dim() > MAX_RANK or _name(t.dtype) not in TORCH_DTYPES for t in tensors) else ""


def _any_tensor(values: Any) -> bool:
    return any(isinstance(v, torch.Tensor) for v in values)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def plain(value: Any) -> Any:
    """Returns an argument as a catalog holds it: numbers, text, true, false, and lists of them."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return str(value).removeprefix("torch.")
