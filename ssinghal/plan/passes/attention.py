"""Rewrites of attention: fused into one call, and heads split by one call. Device-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.tensors import TILE_EDGE
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.editing import VIEWS, makers, readers, view_of, with_steps

_MATMULS = frozenset({"aten.matmul.default", "aten.bmm.default"})
_HEADS = 4  # rank of what TTNN's attention takes


@dataclass(frozen=True)
class _Attention:
    """softmax(query @ keys * scale) @ values. ``keys``: as the first product takes them, [.., head size, keys]. ``turned``: the
    second product takes the weights transposed and gives its result transposed."""

    steps: tuple[int, ...]
    query: int
    keys: int
    values: int
    scale: float
    turned: bool
    result: int


def fused_attention(trace: Trace) -> Trace:
    """Products and softmax as one call, which holds no scores: where nothing but a number stands between them."""
    read, made = readers(trace), makers(trace)
    changed: dict[int, list[Step]] = {}
    values: list[Value] = []
    for number, step in enumerate(trace.steps):
        found = _attention(trace, read, made, number) if step.overload == "aten.softmax.int" else None
        if found is not None:
            changed |= {n: [] for n in found.steps[:-1]}
            changed[found.steps[-1]] = _fused(trace, found, values)
    return with_steps(trace, changed, values)


def _attention(trace: Trace, read: Mapping[int, list[int]], made: Mapping[int, int], number: int) -> _Attention | None:
    softmax = trace.steps[number]
    scores = softmax.operands["self"]
    shape = trace.values[scores].shape
    if len(shape) != _HEADS or softmax.args["dim"] not in (-1, _HEADS - 1):
        return None
    steps, scale = [number], 1.0
    while scores in made and read[scores] == [steps[0]] and _scaled(trace.steps[made[scores]]) is not None:
        factor = _scaled(trace.steps[made[scores]])
        assert factor is not None
        scale *= factor
        steps.insert(0, made[scores])
        scores = trace.steps[steps[0]].operands["self"]
    if scores not in made or read[scores] != [steps[0]] or trace.steps[made[scores]].overload not in _MATMULS:
        return None
    first = trace.steps[made[scores]]
    steps.insert(0, made[scores])
    weights, turned = softmax.results[0], False
    if len(read[weights]) == 1 and read[weights][0] < len(trace.steps):
        after = trace.steps[read[weights][0]]
        if after.overload == "aten.transpose.int" and {after.args["dim0"] % 4, after.args["dim1"] % 4} == {2, 3}:
            steps.append(read[weights][0])
            weights, turned = after.results[0], True
    if len(read[weights]) != 1 or read[weights][0] >= len(trace.steps):
        return None
    second = trace.steps[read[weights][0]]
    place = "other" if turned else "self"
    if second.overload != "aten.matmul.default" or second.operands[place] != weights:
        return None
    inner = second.operands["self" if turned else "other"]
    query, keys = first.inputs
    head = trace.values[query].shape[-1]
    batches = {trace.values[v].shape[:-2] for v in (query, keys, inner)}
    if inner == weights or batches != {shape[:2]} or head % TILE_EDGE or trace.values[inner].shape[2 if turned else 3] != head:
        return None
    return _Attention((*steps, read[weights][0]), query, keys, inner, scale, turned, second.results[0])


def _scaled(step: Step) -> float | None:
    """The number that this step multiplies by; None for any other step."""
    other = step.args.get("other")
    if len(step.inputs) != 1 or not isinstance(other, (int, float)) or isinstance(other, bool):
        return None
    return float(other) if step.overload == "aten.mul.Tensor" else 1 / other if step.overload == "aten.div.Tensor" else None


def _fused(trace: Trace, found: _Attention, values: list[Value]) -> list[Step]:
    steps: list[Step] = []
    at = trace.steps[found.steps[-1]].at

    def turned(value: int) -> int:
        new = _new(trace, values, value)
        steps.append(Step("aten.transpose.int", {"self": value}, {"dim0": -2, "dim1": -1}, (new,), at))
        return new

    operands = {"query": found.query, "key": turned(found.keys)}
    operands["value"] = turned(found.values) if found.turned else found.values
    result = found.result
    if found.turned:
        result = _new(trace, values, found.result)
    args = {"scale": found.scale}
    steps.append(Step("aten.scaled_dot_product_attention.default", operands, args, (result,), at))
    if found.turned:
        steps.append(Step("aten.transpose.int", {"self": result}, {"dim0": -2, "dim1": -1}, (found.result,), at))
    return steps


def _new(trace: Trace, values: list[Value], of: int) -> int:
    """A value like another one, its last two dims swapped."""
    value = trace.values[of]
    values.append(replace(value, shape=(*value.shape[:-2], value.shape[-1], value.shape[-2]), kind=ValueKind.ACTIVATION))
    return len(trace.values) + len(values) - 1


def split_heads(trace: Trace) -> Trace:
    """Queries, keys and values cut out of one product by views: TTNN has a call for it, which gives three tensors of heads."""
    read = readers(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload == "aten.linear.default":
            changed |= _heads_of(trace, read, number)
    return with_steps(trace, changed)


def _heads_of(trace: Trace, read: Mapping[int, list[int]], number: int) -> dict[int, list[Step]]:
    """linear [B, N, 3 H d] -> views -> [3, B, H, N, d] -> three selects of dim 0."""
    packed = trace.steps[number].results[0]
    shape = trace.values[packed].shape
    value, gone = packed, []
    form: AxisLayout | None = AxisLayout.plain(shape)
    while form is not None and len(read[value]) == 1 and read[value][0] < len(trace.steps):
        step = trace.steps[read[value][0]]
        if step.overload not in VIEWS:
            break
        gone.append(read[value][0])
        value = step.results[0]
        form = view_of(form, step, trace.values[value].shape)
    heads = trace.values[value].shape
    if form is None or len(shape) != 3 or len(heads) != 5 or heads[0] != 3 or not gone:
        return {}
    _, batch, count, length, size = heads
    wanted = AxisLayout.plain((batch, length, 3, count, size)).permuted((2, 0, 3, 1, 4))
    if (batch, length, 3 * count * size) != shape or _numbered(form) != _numbered(wanted):
        return {}
    selects = read[value]
    steps = [trace.steps[n] for n in selects if n < len(trace.steps)]
    if size % TILE_EDGE or len(steps) != len(selects):
        return {}
    cut: dict[int, int] = {}
    for select in steps:
        if select.overload == "aten.select.int" and select.args["dim"] == 0:
            parts = {select.args["index"] % 3: select.results[0]}
        elif select.overload == "aten.unbind.int" and select.args.get("dim", 0) == 0:
            parts = dict(enumerate(select.results))
        else:
            return {}
        if parts.keys() & cut.keys():
            return {}
        cut |= parts
    if len(cut) != 3:
        return {}
    args: dict[str, Any] = {"chunks": 3, "dim": 2, f"{EXTRAS}heads": count}
    results = (cut[0], cut[1], cut[2])
    split = Step("aten.chunk.default", {"self": packed}, args, results, trace.steps[gone[0]].at)
    return {**{n: [] for n in (*gone[1:], *selects)}, gone[0]: [split]}


def _numbered(form: AxisLayout) -> tuple[Any, ...]:
    """What two forms of one meaning agree in: sizes of the atoms in the order of the device, and the dims as places in it."""
    place = {atom: i for i, atom in enumerate(form.order)}
    return tuple(form.sizes[a] for a in form.order), tuple(tuple(place[a] for a in dim) for dim in form.dims)
