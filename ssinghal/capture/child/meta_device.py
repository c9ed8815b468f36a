"""Runs models without weights: parameters and activations are on torch's meta device, constants keep their values on the CPU.

Every tensor from a factory call without a device (``empty``, ``zeros``, ``randn``) has no data, so that a model of any size is
built in the time of its constructors. Tensors with given values (``tensor``, ``arange``, ``linspace``) stay real, because
constructors and heads read them back. Where the two meet in one call, the real one is moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

META = torch.device("meta")
FACTORIES = frozenset(
    {torch.empty, torch.empty_strided, torch.full, torch.normal, torch.ones, torch.rand, torch.randint, torch.randn}
    | {torch.zeros}
)
GUESS = 1  # for a value that only a real run knows: true, one, one
READS = frozenset({"_local_scalar_dense", "is_nonzero", "item"})


class ValueUnknown(Exception):
    """A call whose result does not follow from shapes alone, so that it is unknown how the model continues."""


class MetaFactories(TorchFunctionMode):  # type: ignore[misc]
    """Makes factory calls without a device create meta tensors."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in FACTORIES and kwargs.get("device") is None and kwargs.get("out") is None:
            kwargs["device"] = META
        return func(*args, **kwargs)


class MetaMode(TorchDispatchMode):  # type: ignore[misc]
    """Runs calls on meta tensors: real operands are moved where they meet meta ones, values that are read back are guessed.

    ``guesses``: module path -> number of values that were guessed there. ``where()`` is the path of the module that is running.
    ``unknown``: the first call without a known result, even if the model continues without it.
    """

    def __init__(self, where: Callable[[], str] = lambda: "") -> None:
        super().__init__()
        self.where = where
        self.guesses: Counter[str] = Counter()
        self.unknown = ""
        # Real storages that a meta tensor was written into: their values are unknown.
        self._written: dict[int, torch.UntypedStorage] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.run(func, tuple(args), dict(kwargs or {}))

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not any(t.is_meta or self._is_written(t) for t in tensors):
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in READS:
            self.guesses[self.where()] += 1
            return bool(GUESS) if name == "is_nonzero" else _guessed(args[0].dtype)
        if kwargs.get("device") is not None and kwargs["device"].type != "meta":
            kwargs["device"] = META  # a copy to the CPU has no data to bring there
        for tensor in written(func, args, kwargs):
            if not tensor.is_meta:
                storage = tensor.untyped_storage()
                self._written[storage._cdata] = storage
        args, kwargs = tree_map(_moved, (args, kwargs))
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            self.unknown = self.unknown or f"in {self.where()}: {func} cannot be told from shapes alone"
            raise ValueUnknown(self.unknown) from error

    def _is_written(self, tensor: torch.Tensor) -> bool:
        return bool(self._written) and tensor.untyped_storage()._cdata in self._written


def written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yields the operands that this call writes."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            yield from (t for t in tree_iter(value) if isinstance(t, torch.Tensor))


def _guessed(dtype: torch.dtype) -> float | bool:
    if dtype is torch.bool:
        return bool(GUESS)
    return float(GUESS) if dtype.is_floating_point else GUESS


def _moved(value: Any) -> Any:
    """Moves a real tensor to meta, but not a 0-dim one: torch takes it with tensors of any device, and may read it later."""
    if isinstance(value, torch.Tensor) and not value.is_meta and value.dim() > 0:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    return value


@contextmanager
def built_on_meta() -> Iterator[None]:
    """Gives modules that are built inside parameters and buffers without data, whatever their constructors do."""

    def register(module: torch.nn.Module, name: str, tensor: Any) -> Any:
        if isinstance(tensor, torch.nn.Parameter) and not tensor.is_meta:
            return torch.nn.Parameter(tensor.detach().to(META), requires_grad=tensor.requires_grad)
        return tensor

    handle = hooks.register_module_parameter_registration_hook(register)
    try:
        with MetaFactories(), MetaMode():
            yield
    finally:
        handle.remove()


def settle(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Moves every parameter and buffer to meta, floating ones in ``dtype``; evaluation mode, no gradients.

    ``module.to`` would do more: models override it to move tensors whose values they read back (strides, anchors).
    """
    moved: dict[int, torch.Tensor] = {}  # one tensor under two names stays one
    for part in module.eval().modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in moved:
                    kind = dtype if tensor.is_floating_point() else tensor.dtype
                    like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device=META)
                    moved[id(tensor)] = torch.nn.Parameter(like, requires_grad=False) if tensors is part._parameters else like
                tensors[name] = moved[id(tensor)]
