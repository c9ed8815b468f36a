"""The ordered calls of one forward of a model, with the identity and the lifetime of every tensor. Device-free.

A catalog holds which calls a model makes; a trace also holds their order, their tensors, and how long those live: all that a
plan of the complete model needs. ``catalog capture --trace`` writes it as compressed JSON (``.trace.json.gz``).
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ssinghal.core.files import read_limited
from ssinghal.core.json_text import read_json
from ssinghal.core.tensors import Shape, TextEnum
from ssinghal.errors import InvalidCase

SCHEMA = 1
SUFFIX = ".trace.json.gz"


class ValueKind(TextEnum):
    """Where a value comes from. Weights are the model's parameters and buffers; constants are computed from them, or from
    numbers alone, so that both exist before the first call."""

    INPUT = "input"
    WEIGHT = "weight"
    CONSTANT = "constant"
    ACTIVATION = "activation"


@dataclass(frozen=True)
class Value:
    """One tensor as torch sees it: a view of a storage. Two views of one storage are two values; a write in place creates a new
    one. ``dtype`` is torch's name. ``name``: the parameter's, else the path of the module that created it."""

    shape: Shape
    dtype: str
    kind: ValueKind
    storage: int
    name: str = ""

    @property
    def is_resident(self) -> bool:
        return self.kind in (ValueKind.WEIGHT, ValueKind.CONSTANT)


Operand = Any  # a value's number, None where absent, or a tuple of them


@dataclass(frozen=True)
class Step:
    """One call. ``operands``: argument name -> number of the value (a tuple of them for a list, None where one is absent), in
    ATen order. ``dead``: values whose last Python object was gone before the next call. ``writes``: it changes an operand in
    place through a view, so other values of that storage change too."""

    overload: str
    operands: Mapping[str, Operand]
    args: Mapping[str, Any]
    results: tuple[int, ...]
    at: str
    dead: tuple[int, ...] = ()
    writes: bool = False

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Returns the values that it reads, in order; one that is passed twice appears twice."""
        return tuple(self._numbers())

    def _numbers(self) -> Iterator[int]:
        for operand in self.operands.values():
            for number in operand if isinstance(operand, tuple) else (operand,):
                if number is not None:
                    yield number


@dataclass(frozen=True)
class Trace:
    """``head``: the model, its package, its input and with which torch it was recorded. ``results``: values that forward
    returns. ``stopped``: why the recording ended before the forward did, empty if it did not."""

    head: Mapping[str, Any]
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    path: Path = field(default=Path(), compare=False)

    @property
    def model(self) -> str:
        """``package/name``, or the factory."""
        model = self.head["model"]
        return str(model["factory"] if "factory" in model else f"{model['package'].partition('==')[0]}/{model['name']}")

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        return tuple(tuple(shape) for shape in self.head["input"]["shapes"])

    @property
    def dtype(self) -> str:
        """Returns the dtype of floating-point parameters and activations."""
        return str(self.head["input"]["dtype"])

    @property
    def stopped(self) -> str:
        return str(self.head["capture"].get("stopped", ""))

    @property
    def guesses(self) -> Mapping[str, int]:
        """Module path -> number of values read back there, which only a real run knows: the control flow may depend on them."""
        return dict(self.head["capture"].get("guesses", {}))

    @property
    def left_out(self) -> Mapping[str, int]:
        """Kind -> number of calls of the forward that are no steps: on constants, those that return an operand unchanged, …"""
        return dict(self.head["capture"].get("left_out", {}))

    @cached_property
    def last_use(self) -> Mapping[int, int]:
        """Value -> the last step that reads it; ``len(steps)`` for results, the step that creates it if none reads it."""
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            last.update(dict.fromkeys((*step.inputs, *step.results), number))
        last.update(dict.fromkeys(self.results, len(self.steps)))
        return last

    @cached_property
    def last_object(self) -> Mapping[int, int]:
        """Value -> the step after which no Python object of it was left; ``len(steps)`` where one remained to the end."""
        last = {number: len(self.steps) for number, value in enumerate(self.values) if not value.is_resident}
        for number, step in enumerate(self.steps):
            last.update(dict.fromkeys(step.dead, number))
        return last


def logical_bytes(value: Value) -> int:
    """Returns the bytes of the elements alone, as torch stores them."""
    return math.prod(value.shape) * ELEMENT_BYTES[value.dtype]


def resident_bytes(trace: Trace, kind: ValueKind) -> int:
    """Returns the bytes of the weights, or the constants, that the steps read: each storage once, by its largest view."""
    sizes: dict[int, int] = {}
    for value in trace.values:
        if value.kind is kind:
            sizes[value.storage] = max(sizes.get(value.storage, 0), logical_bytes(value))
    return sum(sizes.values())


ELEMENT_BYTES: Mapping[str, int] = {
    "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4,
    "uint32": 4, "int64": 8, "uint64": 8, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip


# Text -------------------------------------------------------------------------------------------------------------------


def trace_text(trace: Trace) -> str:
    """Returns the trace as JSON, one value or step a line: the same trace is always the same text."""
    values = [[v.shape, v.dtype, v.kind.value, v.storage, v.name] for v in trace.values]
    steps = [[s.overload, s.operands, s.args, s.results, s.at, s.dead, int(s.writes)] for s in trace.steps]
    parts = [f'"schema":{SCHEMA},"kind":"trace"', *(f'"{key}":{_compact(value)}' for key, value in trace.head.items())]
    parts += [f'"{name}":[\n{_lines(rows)}\n]' for name, rows in (("values", values), ("steps", steps))]
    return "{" + ",\n".join([*parts, f'"results":{_compact(trace.results)}']) + "}\n"


def _lines(rows: list[Any]) -> str:
    return ",\n".join(map(_compact, rows))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def trace_of(text: str, path: Path = Path()) -> Trace:
    """Returns the trace in a text. InvalidCase, with ``path`` in its message, for a text that is none."""
    try:
        data = read_json(text)
        if data.get("kind") != "trace":
            raise InvalidCase(f"{path}: no trace of a model (written by: ssinghal catalog capture MODEL --input SHAPE --trace)")
        if data["schema"] != SCHEMA:
            raise InvalidCase(f"{path}: a trace of schema {data['schema']}; this program reads schema {SCHEMA}")
        values = tuple(map(_value, data["values"]))
        steps = tuple(_step(row) for row in data["steps"])
        head = {key: data[key] for key in ("model", "input", "capture")}
        trace = Trace(head, values, steps, tuple(data["results"]), path)
        _check(trace)
        return trace
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InvalidCase(f"{path}: a damaged trace ({type(error).__name__}: {error}); record it again") from error


def _value(row: list[Any]) -> Value:
    shape, dtype, kind, storage, name = row
    if not all(type(number) is int and number >= 0 for number in (*shape, storage)) or dtype not in ELEMENT_BYTES:
        raise ValueError(f"no tensor: {row}")
    return Value(tuple(shape), dtype, ValueKind(kind), storage, str(name))


def _step(row: list[Any]) -> Step:
    overload, operands, args, results, at, dead, writes = row
    named = {name: tuple(value) if isinstance(value, list) else value for name, value in operands.items()}
    return Step(overload, named, args, tuple(results), at, tuple(dead), bool(writes))


def _read_by(step: Step) -> tuple[str, ...]:
    """Returns the operands that a step cannot do without, as far as its name shows; each reads something."""
    name = step.overload.removeprefix("aten.")
    if name.startswith(("conv1d.", "conv2d.", "conv3d.", "conv_transpose", "convolution.", "_convolution.")):
        return "input", "weight"
    if "batch_norm" in name:
        return ("input",)
    return () if step.operands else ("self",)


def _check(trace: Trace) -> None:
    """Checks that every value is created once, before it is read, that none is read after it died, and that all names exist."""
    alive = {number for number, value in enumerate(trace.values) if value.kind is not ValueKind.ACTIVATION}
    to_create = set(range(len(trace.values))) - alive
    for number, step in enumerate(trace.steps):
        results = set(step.results)
        if missing := [name for name in _read_by(step) if name not in step.operands]:
            raise ValueError(f"step {number}, {step.overload}, lacks its operand {missing[0]}")
        for fault, values in {
            "reads a value that does not exist": set(step.inputs) - alive,
            "creates a value that exists already, or is unknown": results - to_create,
            "frees a value that does not exist": set(step.dead) - alive - results,
        }.items():
            if values:
                raise ValueError(f"step {number} {fault}: {min(values)}")
        to_create -= results
        alive |= results
        alive -= set(step.dead)
    if not trace.steps:
        raise ValueError("no step")
    if absent := to_create | (set(trace.results) - alive):
        raise ValueError(f"value {min(absent)} is never created, or freed before it is returned")
    name = f"{trace.model} in {trace.dtype}"  # KeyError if the header lacks them
    if [v.shape for v in trace.values if v.kind is ValueKind.INPUT] != list(trace.input_shapes):
        raise ValueError(f"its inputs are not those of {name}")


def read_trace(path: Path) -> Trace:
    """Reads a trace. InvalidCase where the file cannot be read, or is no trace."""
    try:
        text = read_limited(path, unpack=True).decode()
    except InvalidCase as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InvalidCase(f"{path}: cannot be read as a trace: {reason}") from error
    except UnicodeDecodeError as error:
        raise InvalidCase(f"{path}: cannot be read as a trace: {error}") from error
    return trace_of(text, path)


def packed(trace: Trace) -> bytes:
    """Returns the content of a trace file: the same trace is always the same bytes."""
    return gzip.compress(trace_text(trace).encode(), mtime=0)
