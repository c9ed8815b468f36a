"""TTNN's binary functions that write into their first operand: ``ttnn.add_`` and the like, as ports call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import Layout, Shape
from ssinghal.errors import InvalidCase, RegistryError
from ssinghal.operators.elementwise_base import binary
from ssinghal.operators.operator_info import INTEGERS, Attrs, Call, Infer, Limitation, OperatorInfo

ROWS_REFUSED = Limitation("TTNN's binary functions in place take tile layout only", layouts=(Layout.ROW_MAJOR,))
NO_QUOTIENT = Limitation("ttnn.divide_ takes floating-point dtypes only: a quotient of integers is float32", dtypes=INTEGERS)


def _in_place(names: tuple[str, ...], ttnn: str, *limitations: Limitation, whole: bool = False) -> OperatorInfo:
    """Declares the function of two tensors, or of one and a number. The second is broadcast to the first, not the reverse."""
    info = binary(names, ttnn, *limitations, ROWS_REFUSED, overloads=(), whole=whole)
    if info.call is None:
        raise RegistryError(f"{info.name}: no TTNN call")
    traits = replace(info.traits, in_place=True, output_fixed=True, program=None)
    return replace(info, call=_without_target(info.call), infer=_into_first(info), sample=None, traits=traits)


def _without_target(call: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """The functions take neither a memory nor a dtype for the result."""
    return lambda c: call(replace(c, out={}))


def _into_first(info: OperatorInfo) -> Infer:
    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if info.infer(shapes, attrs) != [shapes[0]]:
            raise InvalidCase(
                f"{info.name}: {list(shapes[1])} does not broadcast to {list(shapes[0])}, which the result replaces"
            )
        return [shapes[0]]

    return infer


OPERATORS: tuple[OperatorInfo, ...] = (
    _in_place(("add_",), "add_"),
    _in_place(("sub_", "subtract_"), "subtract_"),
    _in_place(("mul_", "multiply_"), "multiply_"),
    _in_place(("div_", "divide_"), "divide_", NO_QUOTIENT),
    *(_in_place((f"{name}_",), f"{name}_", whole=True) for name in ("eq", "ne", "gt", "ge", "lt", "le")),
    *(_in_place((f"logical_{name}_",), f"logical_{name}_", whole=True) for name in ("and", "or", "xor")),
)
