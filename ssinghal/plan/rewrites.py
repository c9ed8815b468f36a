"""Changes to a trace that a port makes and that keep what the model computes. Device-free: a trace in, a trace out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ssinghal.plan.attention import fused_attention, split_heads
from ssinghal.plan.convolutions import CONVOLUTIONS, pad_into_convolution, whole_convolution
from ssinghal.plan.editing import makers, readers, with_steps
from ssinghal.plan.pixels import depth_to_space
from ssinghal.plan.policy import Policy, Rewrite
from ssinghal.trace import Step, Trace

_NORMS = frozenset({"aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"})


def rewritten(trace: Trace, policy: Policy) -> Trace:
    """The trace as this policy runs it."""
    if policy.fold_batch_norm:
        trace = fold_batch_norm(trace)
    for rewrite, change in CHANGES.items():  # in this order, whatever that of the policy is
        trace = change(trace) if rewrite in policy.rewrites else trace
    return trace


def fold_batch_norm(trace: Trace) -> Trace:
    """Into the convolution before it, whose weight is scaled and whose bias takes the rest: the result is the norm's."""
    read, made = readers(trace), makers(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload not in _NORMS:
            continue
        source = step.operands["input"]
        before = made.get(source)
        if before is None or trace.steps[before].overload not in CONVOLUTIONS or read[source] != [number]:
            continue
        conv = trace.steps[before]
        bias = conv.operands.get("bias")
        shift = bias if bias is not None else step.operands.get("bias") or step.operands["running_mean"]
        operands = {**{k: v for k, v in conv.operands.items() if k != "bias"}, "bias": shift}
        changed[before] = [replace(conv, operands=operands, results=step.results)]
        changed[number] = []
    return with_steps(trace, changed)


CHANGES: Mapping[Rewrite, Callable[[Trace], Trace]] = {
    Rewrite.SDPA: fused_attention,
    Rewrite.QKV_SPLIT: split_heads,
    Rewrite.DEPTH_TO_SPACE: depth_to_space,
    Rewrite.WHOLE_CONVOLUTION: whole_convolution,
    Rewrite.PAD_INTO_CONV: pad_into_convolution,
}

__all__ = ["fold_batch_norm", "rewritten"]
