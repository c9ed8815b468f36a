"""Turns recorded calls into the lines of a captured catalog: equal calls become one line with their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.catalog.writer import made_in
from ssinghal.core.tensors import Shape

Shapes = tuple["Shape | None", ...]
Line = dict[str, Any]

# Arguments that ATen's schemas require although nearly every call has the same value; they are left out like defaults.
_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "aten.convolution.default": {"dilation": 1, "transposed": False, "output_padding": 0, "groups": 1},
    "aten.native_batch_norm.default": {"training": False},
    "aten.batch_norm.default": {"training": False, "cudnn_enabled": True},
    "aten._softmax.default": {"half_to_float": False},
}
_NO_EFFECT = frozenset({"momentum"})  # of a batch norm that is not training


@dataclass(frozen=True)
class Operand:
    """A tensor argument, or a list of them (``shape`` is then a tuple of shapes, None where one is absent). ``constant``: a
    weight, or computed from weights and numbers alone."""

    name: str
    shape: Shape | Shapes
    dtype: str
    constant: bool


@dataclass(frozen=True)
class RecordedCall:
    """One call: its overload, all tensor arguments in ATen order, its other arguments, and what it returned.

    ``out``: a shape, or a tuple of shapes where ATen returns a list (split). Of several results (topk's values and indices)
    it is the first.
    """

    overload: str
    operands: tuple[Operand, ...]
    args: Mapping[str, Any]
    out: Shape | Shapes
    out_dtype: str
    at: str

    def line(self, input_dtype: str) -> Line:
        """Returns a catalog's line without ``n`` and ``at``; what a reader can take for granted is left out."""
        usual = _ALWAYS.get(self.overload, {})
        args = {
            k: v
            for k, v in self.args.items()
            if k not in _NO_EFFECT and (k not in usual or any(x != usual[k] for x in _items(v)))
        }
        dtypes = {o.name: o.dtype for o in self.operands if o.dtype != input_dtype}
        if self.out_dtype != input_dtype:
            dtypes["out"] = self.out_dtype
        line: Line = {"in": {o.name: o.shape for o in self.operands}}
        for key, value in (("w", [o.name for o in self.operands if o.constant]), ("args", args), ("dtypes", dtypes)):
            if value:
                line[key] = value
        return {**line, "out": self.out}


def merged(calls: Iterable[RecordedCall], input_dtype: str) -> dict[str, list[Line]]:
    """Returns the lines of each overload, sorted by shapes, then by all else, so that captures can be compared by line."""
    lines: dict[str, dict[str, tuple[Line, Counter[str]]]] = {}
    for call in calls:
        line = call.line(input_dtype)
        identity = repr(line)
        known = lines.setdefault(call.overload, {}).setdefault(identity, (line, Counter()))
        known[1][call.at] += 1
    return {
        overload: sorted(({"n": at.total(), **line, **made_in(at)} for line, at in found.values()), key=_order)
        for overload, found in sorted(lines.items())
    }


def _order(line: Line) -> tuple[Any, ...]:
    shapes = [shape or () for operand in line["in"].values() for shape in (operand if _is_list(operand) else [operand])]
    return (shapes, repr(line.get("args")), repr(line.get("w")), repr(line.get("dtypes")))


def _is_list(operand: Any) -> bool:
    return any(not isinstance(size, int) for size in operand)


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)
