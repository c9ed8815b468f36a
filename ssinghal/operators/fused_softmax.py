"""Softmax over the last dim, fused with the scale and the mask of attention, by TTNN's functions for it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.operator_info import INTEGERS, Attr, Attrs, Call, Limitation, OperatorInfo, Traits

TILES_ONLY = Limitation("TTNN's fused softmax in place takes tile layout only", layouts=(Layout.ROW_MAJOR,))
FLOATS_ONLY = Limitation("TTNN's fused softmax takes float32, bfloat16 and bfloat8_b only", dtypes=(DType.BFLOAT4_B, *INTEGERS))
CAUSAL = Attr("bool", False)


def _single(number: float) -> float:
    """Returns the nearest number of single precision: TTNN's softmax takes no other."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _mask(c: Call) -> Any:
    return c.inputs[1] if len(c.inputs) > 1 else None


def _check_rank(name: str, x: Shape) -> None:
    if len(x) != 4:
        raise InvalidCase(f"{name} takes [batch, heads, rows, columns], not {list(x)}")


def _check_mask(name: str, x: Shape, mask: Shape, heights: Sequence[int]) -> None:
    """A mask has one row for all, or as many as the operand has where TTNN knows it for a causal one."""
    if len(mask) != 4 or mask[0] != x[0] or mask[1] != 1 or mask[2] not in heights or mask[3] != x[3]:
        expected = f"[{x[0]}, 1, {' or '.join(map(str, heights))}, {x[3]}]"
        raise InvalidCase(f"{name} of {list(x)}: mask {list(mask)}; expected {expected}")


def _masked_shape(name: str, causal: str, *, in_place: bool) -> Callable[[Sequence[Shape], Attrs], list[Shape]]:
    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        x, *masks = shapes
        _check_rank(name, x)
        if attrs.get("scale") is not None and not masks:
            raise InvalidCase(f"{name}: a scale goes with a mask; expected a second operand")
        for mask in masks:
            heights = (1, x[2]) if attrs[causal] or in_place else (1, TILE_EDGE)
            _check_mask(name, x, mask, tuple(dict.fromkeys(heights)))
        return [x]

    return infer


def _torch_masked(scale_of: Callable[[Attrs], float]) -> Callable[[Any, Sequence[Any], Attrs], Any]:
    """A mask of a tile's height is that of its first row."""

    def reference(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        x = tensors[0] * scale_of(attrs)
        if len(tensors) > 1:
            mask = tensors[1]
            x = x + (mask if mask.shape[2] == x.shape[2] else mask[:, :, :1])
        return torch.softmax(x, -1)

    return reference


def _scale(attrs: Attrs) -> float:
    return 1.0 if attrs["scale"] is None else float(attrs["scale"])


def _head_scale(attrs: Attrs) -> float:
    return 1.0 if attrs["head_size"] is None else 1 / math.sqrt(attrs["head_size"])


def _scale_mask(c: Call) -> Any:
    scale = None if c.attrs["scale"] is None else _single(c.attrs["scale"])
    return c.ttnn.scale_mask_softmax(c.inputs[0], scale, _mask(c), is_causal_mask=c.attrs["is_causal_mask"], **c.out)


def _scale_mask_in_place(c: Call) -> Any:
    scale = None if c.attrs["scale"] is None else _single(c.attrs["scale"])
    return c.ttnn.scale_mask_softmax_in_place(c.inputs[0], scale, _mask(c), is_causal_mask=c.attrs["is_causal_mask"])


def _causal_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Its mask is that of a causal one, of the operand's rows and columns."""
    name = "scale_causal_mask_hw_dims_softmax_in_place"
    _check_rank(name, shapes[0])
    _check_mask(name, shapes[0], shapes[1], (shapes[0][2],))
    return [shapes[0]]


def _scale_causal_in_place(c: Call) -> Any:
    """TTNN has no default program for it: one comes as the setting ``program_config``."""
    scale = None if c.attrs["scale"] is None else _single(c.attrs["scale"])
    return c.ttnn.scale_causal_mask_hw_dims_softmax_in_place(c.inputs[0], scale, c.inputs[1])


def _attention(c: Call) -> Any:
    attend = c.ttnn.transformer.attention_softmax
    return attend(
        c.inputs[0], head_size=c.attrs["head_size"], attention_mask=_mask(c), causal_mask=c.attrs["causal_mask"], **c.out
    )


def _attention_in_place(c: Call) -> Any:
    attend = c.ttnn.transformer.attention_softmax_
    return attend(c.inputs[0], head_size=c.attrs["head_size"], attention_mask=_mask(c), causal_mask=c.attrs["causal_mask"])


def _fused(
    name: str,
    ttnn: str,
    call: Callable[[Call], Any],
    causal: str,
    attrs: dict[str, Attr],
    scale_of: Callable[[Attrs], float],
    operands: tuple[str, ...],
    *,
    in_place: bool = False,
    temporaries: bool = False,
) -> OperatorInfo:
    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=operands,
        ttnn=ttnn,
        call=call,
        torch=_torch_masked(scale_of),
        infer=_masked_shape(name, causal, in_place=in_place),
        attrs={**attrs, causal: CAUSAL},
        dims=DimRule(),
        traits=Traits(
            in_place=in_place, output_fixed=in_place, temporaries=temporaries, output_layout=Layout.TILE, weights=(1,)
        ),
        limitations=(TILES_ONLY, FLOATS_ONLY) if in_place else (FLOATS_ONLY,),  # else TTNN tilizes rows first
    )


SCALE = {"scale": Attr("float|none", None)}
HEAD_SIZE = {"head_size": Attr("int|none", None)}

SOFTMAXES = (
    _fused(
        "scale_mask_softmax",
        "ttnn.scale_mask_softmax",
        _scale_mask,
        "is_causal_mask",
        SCALE,
        _scale,
        ("input_tensor", "mask?"),
        temporaries=True,
    ),
    _fused(
        "scale_mask_softmax_in_place",
        "ttnn.scale_mask_softmax_in_place",
        _scale_mask_in_place,
        "is_causal_mask",
        SCALE,
        _scale,
        ("input_tensor", "mask?"),
        in_place=True,
    ),
    OperatorInfo(
        names=("scale_causal_mask_hw_dims_softmax_in_place",),
        aten=(),
        operands=("input_tensor", "mask"),
        ttnn="ttnn.scale_causal_mask_hw_dims_softmax_in_place",
        call=_scale_causal_in_place,
        torch=_torch_masked(_scale),
        infer=_causal_shape,
        attrs=SCALE,
        dims=DimRule(),
        traits=Traits(in_place=True, output_fixed=True, weights=(1,)),
        limitations=(TILES_ONLY, FLOATS_ONLY),
    ),
    _fused(
        "attention_softmax",
        "ttnn.transformer.attention_softmax",
        _attention,
        "causal_mask",
        HEAD_SIZE,
        _head_scale,
        ("input_tensor", "attention_mask?"),
        temporaries=True,
    ),
    _fused(
        "attention_softmax_",
        "ttnn.transformer.attention_softmax_",
        _attention_in_place,
        "causal_mask",
        HEAD_SIZE,
        _head_scale,
        ("input_tensor", "attention_mask"),
        in_place=True,
    ),
)
