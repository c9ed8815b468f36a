"""Tensors created from a size and a number.

``ttnn.ones``, ``zeros`` and ``full`` build the tensor on the host and copy it (1.6 GB: 3 s, 1.5 GB of host memory); the copy
runs no program. So a probe makes the same allocation empty, in microseconds, and the host builds values only where they are
read. ``*_like`` fill on the device in TTNN too, with a program of four tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.tensors import BufferType, DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule, Dims, ResizableCall, Sizes
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    Attr,
    Attrs,
    Call,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    same_as_first,
    tiles_twice,
)

IGNORED = {name: Attr("str|int|bool|none", None) for name in ("dtype", "layout", "device", "pin_memory", "memory_format")}
FILLED_ON_HOST = (DType.UINT8,)  # ttnn.fill does not take it


def _no_program(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    return 0


def _fill_program(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """The fill in place reads and writes the result; a tensor from the host runs no program."""
    return 0 if outputs[0].dtype in FILLED_ON_HOST else tiles_twice(outputs, outputs)


def _infer_size(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return [tuple(attrs["size"])]


def _no_operand(inputs: Sequence[Shape]) -> Sequence[Dims]:
    return [(None,) * len(shape) for shape in inputs]


def _resize_size(call: ResizableCall, sizes: Sizes) -> Attrs:
    return {**call.attrs, "size": [sizes.get(dim, size) for dim, size in enumerate(call.subject)]}


def _form(c: Call) -> dict[str, Any]:
    placement = c.case.placement
    return {
        "dtype": getattr(c.ttnn, placement.dtype.value),
        "layout": c.ttnn.TILE_LAYOUT if placement.layout is Layout.TILE else c.ttnn.ROW_MAJOR_LAYOUT,
        "device": c.device,
        **c.out,
    }


def _fill(c: Call, shape: Shape, value: float, *, like: bool) -> Any:
    placement = c.case.placement
    form = _form(c)
    if c.values and (not like or placement.dtype in FILLED_ON_HOST):
        return c.ttnn.full(list(shape), value, **form)
    tensor = c.ttnn.empty(list(shape), **form)
    if not like or placement.dtype in FILLED_ON_HOST:
        return tensor
    return c.ttnn.fill(tensor, value, output_tensor=tensor)


def _infer_range(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if attrs["step"] == 0:
        raise InvalidCase("arange: step 0")
    return [(max(0, math.ceil((attrs["end"] - attrs["start"]) / attrs["step"])),)]


def _arange(c: Call) -> Any:
    """Builds it on the host and copies it, like any other tensor here."""
    (size,) = _infer_range([], c.attrs)
    if not c.values:
        return _fill(c, size, 0.0, like=False)
    return c.ttnn.arange(*(int(c.attrs[name]) for name in ("start", "end", "step")), **_form(c))


def _counts_in_fractions(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return any(attrs[name] != int(attrs[name]) for name in ("start", "end", "step"))


ARANGE = OperatorInfo(
    names=("arange",),
    aten=("aten.arange.default", "aten.arange.start", "aten.arange.start_step"),
    operands=(),
    ttnn="ttnn.arange",
    call=_arange,
    torch=lambda t, tensors, a: t.arange(a["start"], a["end"], a["step"], dtype=t.float32),
    infer=_infer_range,
    attrs={"start": Attr("float", 0), "end": Attr("float"), "step": Attr("float", 1), **IGNORED},
    sample=lambda shape: Sample((), {"end": math.prod(shape)}),
    traits=Traits(program=_no_program, ttnn_output=BufferType.DRAM),
    limitations=(
        Limitation("ttnn.arange counts in whole numbers", when=_counts_in_fractions),
        Limitation("ttnn.arange creates neither block floats nor uint8", dtypes=(*BLOCK_FLOATS, DType.UINT8)),
    ),
)


def creation(
    name: str,
    overload: str,
    value: Callable[[Attrs], float],
    *,
    like: bool = False,
    operand: bool = False,
    attrs: dict[str, Attr] | None = None,
    sample: dict[str, Any] | None = None,
) -> OperatorInfo:
    """Declares a tensor of one value, of the shape of its operand (``like``), or of a ``size``.

    With a ``size`` there may be an ``operand``, which in torch gives dtype and device only.
    """
    size: dict[str, Attr] = {} if like else {"size": Attr("ints")}
    infer = same_as_first if like else _infer_size

    def torch(torch: Any, tensors: Sequence[Any], given: Attrs) -> Any:
        return torch.full(infer([tuple(tensor.shape) for tensor in tensors], given)[0], float(value(given)))

    def sampled(shape: Shape) -> Sample:
        inputs = (shape,) if like or operand else ()
        return Sample(inputs, {**({} if like else {"size": list(shape)}), **(sample or {})})

    return OperatorInfo(
        names=(name,),
        aten=(overload,),
        operands=("self",) if like or operand else (),
        ttnn=f"ttnn.{name.removeprefix('new_')}",
        call=lambda c: _fill(c, infer([tuple(x.shape) for x in c.inputs], c.attrs)[0], value(c.attrs), like=like),
        torch=torch,
        infer=infer,
        attrs={**size, **(attrs or {}), **IGNORED},
        sample=sampled,
        dims=DimRule() if like else DimRule(_no_operand, subject=None, resize=_resize_size),
        traits=Traits(program=_fill_program if like else _no_program, ttnn_output=BufferType.DRAM, untyped=(0,)),
    )


FILL_VALUE = {"fill_value": Attr("float")}
ONE = {"fill_value": 1.0}

OPERATORS = (
    creation("ones", "aten.ones.default", lambda attrs: 1.0),
    creation("zeros", "aten.zeros.default", lambda attrs: 0.0),
    creation("full", "aten.full.default", lambda attrs: attrs["fill_value"], attrs=FILL_VALUE, sample=ONE),
    ARANGE,
    OperatorInfo(
        names=("scalar_tensor",),
        aten=("aten.scalar_tensor.default",),
        operands=(),
        ttnn="ttnn.full",
        call=lambda c: _fill(c, (1,), c.attrs["s"], like=False),
        torch=lambda t, tensors, a: t.full((1,), float(a["s"])),
        infer=lambda shapes, attrs: [(1,)],
        attrs={"s": Attr("float|bool"), **IGNORED},
        sample=lambda shape: Sample((), {"s": 1.0}),
        traits=Traits(program=_no_program, ttnn_output=BufferType.DRAM),
    ),
    creation("new_ones", "aten.new_ones.default", lambda attrs: 1.0, operand=True),
    creation("new_zeros", "aten.new_zeros.default", lambda attrs: 0.0, operand=True),
    creation(
        "new_full", "aten.new_full.default", lambda attrs: attrs["fill_value"], operand=True, attrs=FILL_VALUE, sample=ONE
    ),
    creation("ones_like", "aten.ones_like.default", lambda attrs: 1.0, like=True),
    creation("zeros_like", "aten.zeros_like.default", lambda attrs: 0.0, like=True),
    creation("full_like", "aten.full_like.default", lambda attrs: attrs["fill_value"], like=True, attrs=FILL_VALUE, sample=ONE),
)
