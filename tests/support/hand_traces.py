"""Builds traces by hand, for models whose bytes are computed by hand."""

from __future__ import annotations

from ssinghal.capture.trace import Step, Trace, Value, ValueKind, trace_of, trace_text


class Model:
    """Builds a trace by hand."""

    def __init__(self):
        self.values, self.steps = [], []

    def value(self, shape, kind):
        self.values.append(Value(tuple(shape), "bfloat16", kind, len(self.values), f"value {len(self.values)}"))
        return len(self.values) - 1

    def input(self, *shape):
        return self.value(shape, ValueKind.INPUT)

    def weight(self, *shape):
        return self.value(shape, ValueKind.WEIGHT)

    def call(self, name, shape, args=None, /, *, dead=(), **operands):
        """``dead``: values whose last object is gone after the call."""
        result = self.value(shape, ValueKind.ACTIVATION)
        self.steps.append(Step(f"aten.{name}", operands, args or {}, (result,), f"part {len(self.steps)}", tuple(dead)))
        return result

    def trace(self, *results):
        shapes = [list(v.shape) for v in self.values if v.kind is ValueKind.INPUT]
        head = {
            "model": {"name": "net", "package": "mine==1", "config": "", "params": 0, "fused": False},
            "input": {"shapes": shapes, "dtype": "bfloat16"},
            "capture": {"torch": "2.7", "level": "torch", "device": "meta", "guessed": 0},
        }
        return trace_of(trace_text(Trace(head, tuple(self.values), tuple(self.steps), results)))
