"""Changes to a trace that a port makes and that keep what the model computes. Device-free: a trace in, a trace out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ssinghal.plan.policy import Policy, Rewrite
from ssinghal.trace import Step, Trace

_CONVOLUTIONS = frozenset(f"aten.conv{dims}d.{kind}" for dims in (1, 2, 3) for kind in ("default", "padding"))
_NORMS = frozenset({"aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"})


def rewritten(trace: Trace, policy: Policy) -> Trace:
    """The trace as this policy runs it."""
    if policy.fold_batch_norm:
        trace = fold_batch_norm(trace)
    for rewrite in policy.rewrites:
        change = CHANGES.get(rewrite)
        trace = trace if change is None else change(trace)
    return trace


def readers(trace: Trace) -> Mapping[int, list[int]]:
    """Value -> the steps that read it; a result of the model is read by the step after the last one."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, step in enumerate(trace.steps):
        for value in dict.fromkeys(step.inputs):
            found[value].append(number)
    for value in trace.results:
        found[value].append(len(trace.steps))
    return found


def makers(trace: Trace) -> Mapping[int, int]:
    """Value -> the step that makes it."""
    return {value: number for number, step in enumerate(trace.steps) for value in step.results}


def with_steps(trace: Trace, changed: Mapping[int, Iterable[Step]]) -> Trace:
    """Each of these steps replaced by others, or by none: what died after one that is gone dies after the step before it."""
    steps: list[Step] = []
    for number, step in enumerate(trace.steps):
        if number not in changed:
            steps.append(step)
            continue
        news = list(changed[number])
        kept = tuple(v for v in step.dead)
        if news:
            news[-1] = replace(news[-1], dead=(*news[-1].dead, *kept))
            steps += news
        elif kept and steps:
            steps[-1] = replace(steps[-1], dead=(*steps[-1].dead, *kept))
    return Trace(trace.head, trace.values, tuple(steps), trace.results, trace.path)


def fold_batch_norm(trace: Trace) -> Trace:
    """Into the convolution before it, whose weight is scaled and whose bias takes the rest: the result is the norm's."""
    read, made = readers(trace), makers(trace)
    changed: dict[int, list[Step]] = {}
    for number, step in enumerate(trace.steps):
        if step.overload not in _NORMS:
            continue
        source = step.operands["input"]
        before = made.get(source)
        if before is None or trace.steps[before].overload not in _CONVOLUTIONS or read[source] != [number]:
            continue
        conv = trace.steps[before]
        bias = conv.operands.get("bias")
        shift = bias if bias is not None else step.operands.get("bias") or step.operands["running_mean"]
        operands = {**{k: v for k, v in conv.operands.items() if k != "bias"}, "bias": shift}
        dead = tuple(v for v in (*conv.dead, *step.dead) if v != source)
        changed[before] = [replace(conv, operands=operands, results=step.results, at=conv.at, dead=dead)]
        changed[number] = []
    for number in [n for n, news in changed.items() if not news]:
        trace.steps[number]  # its dead are the convolution's already
    return _without(trace, changed)


def _without(trace: Trace, changed: Mapping[int, list[Step]]) -> Trace:
    steps = tuple(s for n, step in enumerate(trace.steps) for s in (changed.get(n, [step])))
    return Trace(trace.head, trace.values, steps, trace.results, trace.path)


CHANGES: Mapping[Rewrite, Callable[[Trace], Trace]] = {}

__all__ = ["fold_batch_norm", "makers", "readers", "rewritten", "with_steps"]
