"""Elementwise operators: one result of the (broadcast) shape of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.errors import InvalidCase
from ssinghal.operators.core import Attr, Attrs, Call, OperatorInfo, Sample, Traits, broadcast, same_as_first, tiles_twice
from ssinghal.specs import Shape, TensorSpec

ELEMENTWISE = Traits(program=tiles_twice)


def unary(
    names: tuple[str, ...],
    aten: tuple[str, ...],
    ttnn: str,
    torch: Callable[[Any, Any, Attrs], Any],
    *,
    call: Callable[[Call, Any], Any] | None = None,
    attrs: dict[str, Attr] | None = None,
    traits: Traits = ELEMENTWISE,
) -> OperatorInfo:
    """One operand, one result. ``call`` is only needed where TTNN's function takes more than the tensor."""
    default = lambda c, x: getattr(c.ttnn, ttnn)(x, **c.out)  # noqa: E731
    run = call or default
    return OperatorInfo(
        names=names,
        aten=aten,
        operands=("self",),
        ttnn=f"ttnn.{ttnn}",
        call=lambda c: run(c, c.inputs[0]),
        torch=lambda t, tensors, a: torch(t, tensors[0], a),
        attrs=attrs or {},
        traits=traits,
    )


def binary(names: tuple[str, ...], aten: tuple[str, ...], ttnn: str, torch: str) -> OperatorInfo:
    """Two operands that broadcast, or one and the number ``other``."""

    def other(tensors: Sequence[Any], attrs: Attrs) -> Any:
        return tensors[1] if len(tensors) > 1 else attrs["other"]

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if (len(shapes) == 2) == (attrs["other"] is not None):
            raise InvalidCase(f"{names[0]} takes two tensors, or one tensor and the number other")
        return broadcast(shapes, attrs)

    return OperatorInfo(
        names=names,
        aten=aten,
        operands=("self", "other?"),
        ttnn=f"ttnn.{ttnn}",
        call=lambda c: getattr(c.ttnn, ttnn)(c.inputs[0], other(c.inputs, c.attrs), **c.out),
        torch=lambda t, tensors, a: getattr(t, torch)(tensors[0], other(tensors, a)),
        infer=infer,
        attrs={"other": Attr("float|none", None)},
        sample=lambda shape: Sample((shape, shape), {}),
        traits=ELEMENTWISE,
    )


OPERATORS = (
    binary(("add",), ("aten.add.Tensor", "aten.add.Scalar", "aten.add_.Tensor"), "add", "add"),
    binary(("sub",), ("aten.sub.Tensor", "aten.sub.Scalar"), "subtract", "sub"),
    binary(("mul",), ("aten.mul.Tensor", "aten.mul.Scalar"), "multiply", "mul"),
    binary(("div",), ("aten.div.Tensor", "aten.div.Scalar"), "divide", "div"),
    unary(("relu",), ("aten.relu.default", "aten.relu_.default"), "relu", lambda t, x, a: t.relu(x)),
    unary(("silu", "SiLU"), ("aten.silu.default",), "silu", lambda t, x, a: t.nn.functional.silu(x)),
    unary(
        ("leaky_relu", "leakyrelu"),
        ("aten.leaky_relu.default", "aten.leaky_relu_.default"),
        "leaky_relu",
        lambda t, x, a: t.nn.functional.leaky_relu(x, a["negative_slope"]),
        call=lambda c, x: c.ttnn.leaky_relu(x, c.attrs["negative_slope"], **c.out),
        attrs={"negative_slope": Attr("float", 0.01)},
    ),
)

__all__ = ["OPERATORS", "TensorSpec", "same_as_first"]
