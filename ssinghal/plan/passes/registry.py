"""Applies the changes that a port makes to a trace without changing what the model computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ssinghal.capture.trace import Step, Trace
from ssinghal.plan.lowering import EXTRAS
from ssinghal.plan.passes.attention import fused_attention
from ssinghal.plan.passes.convolution import CONVOLUTIONS, pad_into_convolution, whole_convolution
from ssinghal.plan.passes.depth_to_space import depth_to_space
from ssinghal.plan.passes.editing import Graph, with_steps
from ssinghal.plan.passes.heads import split_heads
from ssinghal.plan.policy import PortingPolicy, Rewrite

_NORMS = frozenset({"aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"})
_VECTORS = ("weight", "bias", "running_mean", "running_var")


def rewritten(trace: Trace, policy: PortingPolicy) -> Trace:
    """Returns the trace as this policy runs it."""
    if policy.fold_batch_norm:
        trace = fold_batch_norm(trace)
    for rewrite, change in CHANGES.items():  # in this order, whatever that of the policy is
        trace = change(trace) if rewrite in policy.rewrites else trace
    return trace


def fold_batch_norm(trace: Trace) -> Trace:
    """Folds batch norms into the convolutions before them, which scale their weight and take the rest into their bias.

    The argument ``folded`` lists the values that the new weight and bias come from: the convolution's own bias and the norm's
    weight, bias, mean and variance (None where there is none), and epsilon. Norms with statistics of the batch are not folded.
    """
    graph = Graph(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload not in _NORMS or step.args.get("training"):
            continue
        source = step.operands["input"]
        before = graph.creator_for(number, source)
        if before is None or trace.steps[before].overload not in CONVOLUTIONS:
            continue
        conv = trace.steps[before]
        parts = [conv.operands.get("bias"), *map(step.operands.get, _VECTORS)]
        weight = trace.values[conv.operands["weight"]]
        resident = weight.is_resident and all(trace.values[n].is_resident for n in parts if n is not None)
        others_are_read = any(graph.readers[n] for n in step.results[1:])
        if not resident or len(weight.shape) != len(trace.values[source].shape) or others_are_read:
            continue
        shift = next(n for n in (parts[0], parts[2], parts[3]) if n is not None)
        operands = {**{k: v for k, v in conv.operands.items() if k != "bias"}, "bias": shift}
        args = {**conv.args, f"{EXTRAS}folded": [*parts, step.args["eps"]]}
        changed[before] = [replace(conv, operands=operands, args=args, results=step.results[:1])]
        changed[number] = []
    return with_steps(trace, changed)


CHANGES: Mapping[Rewrite, Callable[[Trace], Trace]] = {
    Rewrite.SDPA: fused_attention,
    Rewrite.QKV_SPLIT: split_heads,
    Rewrite.DEPTH_TO_SPACE: depth_to_space,
    Rewrite.WHOLE_CONVOLUTION: whole_convolution,
    Rewrite.PAD_INTO_CONV: pad_into_convolution,
}
