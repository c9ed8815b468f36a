"""Tensors made from a size and a number.

``ttnn.ones``, ``zeros`` and ``full`` build the tensor on the host and copy it (1.6 GB: 3 s, 1.5 GB of host memory).
``ttnn.moreh_full`` fills the same allocation on the device (7 ms), so it is what runs here wherever it takes the tensor. That
proves that the result fits, with one page of program buffers more than the copy from the host needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.operators.core import Attr, Attrs, Call, OperatorInfo, Sample, Traits, same_as_first
from ssinghal.specs import DType, Layout, Shape, TensorSpec

IGNORED = {name: Attr("str|int|bool|none", None) for name in ("dtype", "layout", "device", "pin_memory", "memory_format")}


def _fills_on_device(dtype: DType, shape: Shape) -> bool:
    """What ttnn.moreh_full takes."""
    return dtype in (DType.BFLOAT16, DType.FLOAT32, DType.INT32) and len(shape) > 1


def _program(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """One page of the value; nothing where the tensor comes from the host."""
    spec = outputs[0]
    return spec.page_bytes if _fills_on_device(spec.dtype, spec.shape) else 0


def _infer_size(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return [tuple(attrs["size"])]


def _fill(c: Call, shape: Shape, value: float) -> Any:
    placement = c.case.placement
    dtype = getattr(c.ttnn, placement.dtype.value)
    layout = c.ttnn.TILE_LAYOUT if placement.layout is Layout.TILE else c.ttnn.ROW_MAJOR_LAYOUT
    fill = c.ttnn.moreh_full if _fills_on_device(placement.dtype, shape) else c.ttnn.full
    return fill(list(shape), value, device=c.device, dtype=dtype, layout=layout, **c.out)


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
    """A tensor of one value, of the shape of its operand (``like``), or of a ``size``, with or without an ``operand`` that in
    torch only tells dtype and device."""
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
        ttnn="ttnn.moreh_full",
        call=lambda c: _fill(c, infer([tuple(x.shape) for x in c.inputs], c.attrs)[0], value(c.attrs)),
        torch=torch,
        infer=infer,
        attrs={**size, **(attrs or {}), **IGNORED},
        sample=sampled,
        traits=Traits(program=_program),
    )


FILL_VALUE = {"fill_value": Attr("float")}
ONE = {"fill_value": 1.0}

OPERATORS = (
    creation("ones", "aten.ones.default", lambda attrs: 1.0),
    creation("zeros", "aten.zeros.default", lambda attrs: 0.0),
    creation("full", "aten.full.default", lambda attrs: attrs["fill_value"], attrs=FILL_VALUE, sample=ONE),
    creation("new_ones", "aten.new_ones.default", lambda attrs: 1.0, operand=True),
    creation("new_zeros", "aten.new_zeros.default", lambda attrs: 0.0, operand=True),
    creation(
        "new_full", "aten.new_full.default", lambda attrs: attrs["fill_value"], operand=True, attrs=FILL_VALUE, sample=ONE
    ),
    creation("ones_like", "aten.ones_like.default", lambda attrs: 1.0, like=True),
    creation("zeros_like", "aten.zeros_like.default", lambda attrs: 0.0, like=True),
    creation("full_like", "aten.full_like.default", lambda attrs: attrs["fill_value"], like=True, attrs=FILL_VALUE, sample=ONE),
)

__all__ = ["OPERATORS"]
