"""Builds the user's own model: ``package.module:function`` that returns (module, inputs)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import torch

from ssinghal.capture.zoo import DTYPE, BuiltModel
from ssinghal.errors import CaptureError


def call_factory(text: str) -> BuiltModel:
    """Returns the model and its inputs. CaptureError if there is no such function, or it returns something else."""
    module_name, _, name = text.partition(":")
    module = _imported(module_name, text)
    if not callable(function := getattr(module, name, None)):
        raise CaptureError(f"factory {text}: {module_name} has no function {name}")
    returned = function()
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], torch.nn.Module)):
        raise CaptureError(f"factory {text}: returned {_described(returned)}; expected (torch.nn.Module, inputs)")
    model, inputs = returned
    names = tuple(inputs) if isinstance(inputs, dict) else ()
    tensors = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs.values()) if names else inputs
    if not isinstance(tensors, (tuple, list)) or not tensors or not all(isinstance(t, torch.Tensor) for t in tensors):
        raise CaptureError(f"factory {text}: inputs are {_described(inputs)}; expected a tensor, or a tuple or dict of tensors")
    shapes = tuple(tuple(t.shape) for t in tensors)
    dtypes = tuple(DTYPE if t.is_floating_point() else str(t.dtype).removeprefix("torch.") for t in tensors)
    run = (lambda *values: model(**dict(zip(names, values, strict=True)))) if names else model
    return BuiltModel(model, run, text, shapes, () if set(dtypes) == {DTYPE} else dtypes)


def _imported(module: str, factory: str) -> ModuleType:
    """Returns the factory's module. CaptureError if there is none; what the module itself lacks is an error of its code."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise CaptureError(f"factory {factory}: no module {error.name} in this folder or the environment") from None


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of ({', '.join(type(v).__name__ for v in value)})"
    return f"{'an' if type(value).__name__[:1] in 'aeiou' else 'a'} {type(value).__name__}"
