"""Rewrites attention: one call for the products and the softmax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import TILE_EDGE
from ssinghal.plan.passes.editing import Graph, with_steps

_MATMULS = frozenset({"aten.matmul.default", "aten.bmm.default"})
_RANK = 4  # of the operands of TTNN's attention


@dataclass(frozen=True)
class _Attention:
    """softmax(query @ keys * scale) @ values. ``keys``: as the first product takes them, [.., head size, keys].

    ``transposed``: the second product takes the weights transposed and gives its result transposed.
    """

    steps: tuple[int, ...]
    query: int
    keys: int
    values: int
    scale: float
    transposed: bool
    result: int


class _Scores(NamedTuple):
    """The scores that a softmax takes: query @ keys * scale, by ``steps``."""

    steps: list[int]
    query: int
    keys: int
    scale: float


class _Weighted(NamedTuple):
    """The product of a softmax's weights with ``values``, by ``steps``, the product last."""

    steps: list[int]
    values: int
    transposed: bool


def fused_attention(trace: Trace) -> Trace:
    """Fuses the two products and the softmax of attention into one call, which allocates no scores.

    Nothing but multiplications by a number may be between them.
    """
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, step in enumerate(trace.steps):
        attention = _attention(graph, number) if step.overload == "aten.softmax.int" else None
        if attention is not None:
            changed |= {n: [] for n in attention.steps[:-1]}
            changed[attention.steps[-1]] = _fused(trace, attention, values)
    return with_steps(trace, changed, values)


def _attention(graph: Graph, number: int) -> _Attention | None:
    """Returns the attention around the softmax ``number``; None where the steps do something else or TTNN has no such call:

    scores = query @ keys * scale; weights = softmax(scores, -1); result = weights @ values
    or, transposed: result = values @ weights.transpose(-2, -1)
    """
    softmax = graph.steps[number]
    shape = graph.values[softmax.operands["self"]].shape
    if len(shape) != _RANK or softmax.args["dim"] not in (-1, _RANK - 1):
        return None
    scores, weighted = _scores(graph, number), _weighted(graph, number)
    if scores is None or weighted is None:
        return None
    head_size = graph.values[scores.query].shape[-1]
    batches = {graph.values[v].shape[:-2] for v in (scores.query, scores.keys, weighted.values)}
    if batches != {shape[:2]} or head_size % TILE_EDGE:
        return None
    if graph.values[weighted.values].shape[-2 if weighted.transposed else -1] != head_size:
        return None
    steps = (*scores.steps, number, *weighted.steps)
    result = graph.steps[steps[-1]].results[0]
    return _Attention(steps, scores.query, scores.keys, weighted.values, scores.scale, weighted.transposed, result)


def _scores(graph: Graph, softmax: int) -> _Scores | None:
    """Goes back from a softmax over multiplications by numbers to the product of query and keys."""
    steps, scale, reader = list[int](), 1.0, softmax
    while (number := graph.creator_for(reader, graph.steps[reader].operands["self"])) is not None:
        steps.insert(0, number)
        step, reader = graph.steps[number], number
        if step.overload in _MATMULS:
            query, keys = step.inputs
            return _Scores(steps, query, keys, scale)
        factor = _factor(step)
        if factor is None:
            return None
        scale *= factor
    return None


def _weighted(graph: Graph, softmax: int) -> _Weighted | None:
    """Goes on from a softmax, over a transpose of its weights, to their product with the values."""
    weights, steps, transposed = graph.steps[softmax].results[0], list[int](), False
    number = graph.only_reader(weights)
    if number is not None and _swaps_last_dims(graph.steps[number]):
        steps.append(number)
        weights, transposed = graph.steps[number].results[0], True
        number = graph.only_reader(weights)
    if number is None or graph.steps[number].overload != "aten.matmul.default":
        return None
    left, right = graph.steps[number].inputs
    own, values = (right, left) if transposed else (left, right)
    return _Weighted([*steps, number], values, transposed) if own == weights != values else None


def _swaps_last_dims(step: Step) -> bool:
    return step.overload == "aten.transpose.int" and {step.args["dim0"] % _RANK, step.args["dim1"] % _RANK} == {2, 3}


def _factor(step: Step) -> float | None:
    """Returns the number that a step multiplies by; None for any other step."""
    other = step.args.get("other")
    if len(step.inputs) != 1 or not isinstance(other, (int, float)) or isinstance(other, bool):
        return None
    return float(other) if step.overload == "aten.mul.Tensor" else 1 / other if step.overload == "aten.div.Tensor" else None


def _fused(trace: Trace, attention: _Attention, values: list[Value]) -> list[Step]:
    """Returns the steps of the fused call. ``values``: new ones, to which those of the steps are added."""
    steps: list[Step] = []
    at = trace.steps[attention.steps[-1]].at

    def transposed(value: int) -> int:
        new = _new_transposed(trace, values, value)
        steps.append(Step("aten.transpose.int", {"self": value}, {"dim0": -2, "dim1": -1}, (new,), at))
        return new

    operands = {"query": attention.query, "key": transposed(attention.keys)}
    operands["value"] = transposed(attention.values) if attention.transposed else attention.values
    result = _new_transposed(trace, values, attention.result) if attention.transposed else attention.result
    args = {"scale": attention.scale}
    steps.append(Step("aten.scaled_dot_product_attention.default", operands, args, (result,), at))
    if attention.transposed:
        steps.append(Step("aten.transpose.int", {"self": result}, {"dim0": -2, "dim1": -1}, (attention.result,), at))
    return steps


def _new_transposed(trace: Trace, values: list[Value], like: int) -> int:
    """Adds a value like another one with its last two dims swapped; returns its number."""
    value = trace.values[like]
    values.append(replace(value, shape=(*value.shape[:-2], value.shape[-1], value.shape[-2]), kind=ValueKind.ACTIVATION))
    return len(trace.values) + len(values) - 1
