"""Builds the user's own model: ``package.module:function`` that returns (module, inputs).

A factory that takes the sizes of its first input, as ``*shape`` or one by one, is called with them. Any other brings its own
inputs, of which only the batch can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import Parameter, signature
from types import ModuleType
from typing import Any

import torch

from ssinghal.capture.zoo import DTYPE, BuiltModel
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import CaptureError, CaptureUnavailable


def call_factory(text: str, shape: Shape | None = None) -> BuiltModel:
    """Returns the model and its inputs, the first of this shape; None for the factory's own.

    Raises:
        CaptureUnavailable: There is no such function, or it has no input of this shape.
        CaptureError: It returned something else.
    """
    function = _function(text)
    if not _takes_sizes(function):
        own = _built(text, function())
        return own if shape in (None, own.inputs[0]) else own.with_batch(_batch(own, shape or ()))
    if shape is None:
        raise CaptureUnavailable(f"factory {text} takes the shape of its input: give --input, e.g. --input 1,3,640,640")
    try:
        signature(function).bind(*shape)
    except TypeError as error:
        raise CaptureUnavailable(f"factory {text}: cannot be called with the sizes of {format_shape(shape)}: {error}") from None
    built = _built(text, function(*shape))
    if built.inputs[0] != shape:
        given, returned = format_shape(shape), format_shape(built.inputs[0])
        raise CaptureUnavailable(f"factory {text}: called with {given}, it returned a first input of {returned}")
    return built


def check_batch(built: BuiltModel, own: Sequence[Shape], results: Sequence[Shape]) -> None:
    """Checks that every result grows with the batch. ``own``: the results at the factory's own batch.

    Raises:
        CaptureUnavailable: One does not, so that its first dimension is not the batch.
    """
    batch, given = built.inputs[0][0], built.own_inputs[0][0]
    expected = [(shape[0] * batch // given, *shape[1:]) if shape and shape[0] % given == 0 else () for shape in own]
    if not results or list(results) != expected:
        there, here = (", ".join(map(format_shape, shapes)) or "unknown" for shapes in (own, results))
        unlike = f"its results do not follow the batch: {there} at {given}, {here} at {batch}"
        raise CaptureUnavailable(f"factory {built.config}: {unlike}; {_cure(built.config)}")


def _batch(own: BuiltModel, shape: Shape) -> int:
    """Returns the batch of a shape that differs in nothing else from the factory's own."""
    first = own.inputs[0]
    if not first or not shape or shape[1:] != first[1:]:
        raise CaptureUnavailable(
            f"factory {own.config} brings an input {format_shape(first)}, not {format_shape(shape)}; {_cure(own.config)}"
        )
    return shape[0]


def _cure(text: str) -> str:
    return f"for other inputs let it take the shape: def {text.rpartition(':')[2]}(*shape)"


def _takes_sizes(function: Callable[..., Any]) -> bool:
    """Whether it has to be called with values."""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:  # compiled, without a signature
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        p.kind is Parameter.VAR_POSITIONAL or (p.kind in positional and p.default is Parameter.empty) for p in parameters
    )


def _built(text: str, returned: Any) -> BuiltModel:
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


def _function(text: str) -> Callable[..., Any]:
    module_name, _, name = text.partition(":")
    function: object = getattr(_imported(module_name, text), name, None)
    if not callable(function):
        raise CaptureUnavailable(f"factory {text}: {module_name} has no function {name}")
    return function


def _imported(module: str, factory: str) -> ModuleType:
    """Returns the factory's module. CaptureError if there is none; what the module itself lacks is an error of its code."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise CaptureUnavailable(f"factory {factory}: no module {error.name} in this folder or the environment") from None


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of ({', '.join(type(v).__name__ for v in value)})"
    return f"{'an' if type(value).__name__[:1] in 'aeiou' else 'a'} {type(value).__name__}"
