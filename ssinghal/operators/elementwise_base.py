"""Declarations of elementwise operators of one and of two operands, and their program buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ssinghal.core.tensors import DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.dims import broadcast_operands, cut_elements
from ssinghal.operators.operator_info import (
    INTEGERS,
    Attr,
    Attrs,
    Call,
    Limitation,
    OperatorInfo,
    Program,
    Sample,
    Traits,
    aten,
    broadcast,
    tiles_twice,
)

Specs = Sequence[TensorSpec]

ANY_ALIGNMENT_BYTES = 64  # a multiple of the alignment of every memory of every board
MAX_BROADCAST_RANK = 6

FLOATS_ONLY = Limitation("TTNN computes it on floating-point dtypes only", dtypes=INTEGERS)
SIGNED_ONLY = Limitation("TTNN computes it on signed dtypes only", dtypes=(DType.UINT8, DType.UINT16, DType.UINT32))


def copied_pages(inputs: Specs, outputs: Specs) -> int | None:
    """Returns the program buffers of a copy: two pages of the operand. None for rows that some memory would pad."""
    page_bytes = inputs[0].page_bytes
    if inputs[0].layout is Layout.ROW_MAJOR and page_bytes % ANY_ALIGNMENT_BYTES:
        return None
    return 2 * page_bytes


def copied_tiles(inputs: Specs, outputs: Specs) -> int | None:
    """As ``copied_pages``, but None for row-major tensors, whose long rows ``ttnn.copy`` cuts."""
    return copied_pages(inputs, outputs) if inputs[0].layout is Layout.TILE else None


def binary_program(inputs: Specs, outputs: Specs) -> int:
    """Returns two tiles for each tensor, one for a number, and two where rows or columns are broadcast.

    A number is of 32 bits for 32-bit operands, else bfloat16; repeated rows and columns are built in the two more tiles.
    Row-major rows go through buffers of the same size.
    """
    tile_bytes = inputs[0].dtype.tile_bytes
    if len(inputs) == 1:
        return tiles_twice(inputs, outputs) + max(tile_bytes, DType.BFLOAT16.tile_bytes)
    a, b = (_last_two(spec.shape) for spec in inputs)
    return tiles_twice(inputs, outputs) + (2 * tile_bytes if a != b else 0)


def comparison_program(inputs: Specs, outputs: Specs) -> int | None:
    """As ``binary_program``; None for uint8, of which TTNN compares copies in uint16."""
    return None if inputs[0].dtype is DType.UINT8 else binary_program(inputs, outputs)


def _last_two(shape: Shape) -> Shape:
    return (1, *shape)[-2:]


def equal_shapes_program(inputs: Specs, outputs: Specs) -> int | None:
    """Returns two tiles for each tensor; None where one is broadcast."""
    return tiles_twice(inputs, outputs) if len({spec.shape for spec in inputs}) == 1 else None


def _broadcasts_high_rank(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return max(map(len, shapes)) > MAX_BROADCAST_RANK and len(set(shapes)) > 1


def _scales_a_tensor(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return len(shapes) > 1 and bool(attrs["alpha"] != 1)


NO_BYTES = Limitation("TTNN's binary kernels do not take uint8", dtypes=(DType.UINT8,))
NO_HIGH_RANK_BROADCAST = Limitation(f"TTNN broadcasts up to rank {MAX_BROADCAST_RANK}", when=_broadcasts_high_rank)
NO_TENSOR_ALPHA = Limitation(
    "alpha of a tensor is another TTNN function (ttnn.addalpha, ttnn.subalpha)", when=_scales_a_tensor, taken=True
)
NO_FRACTIONS = Limitation(
    "integers with a fraction: TTNN rejects the number, truncates it, or returns float32",
    dtypes=INTEGERS,
    when=lambda shapes, attrs: isinstance(attrs["other"], float),
    taken=True,
)

ELEMENTWISE = Traits(program=tiles_twice)
LIMITING = Traits(program=tiles_twice, spread=4.0)
BY_ELEMENT = DimRule(broadcast_operands, subject=None, cut=cut_elements)


def unary(
    names: tuple[str, ...],
    overloads: tuple[str, ...] | None = None,
    *,
    ttnn: str | None = None,
    torch: Callable[[Any, Sequence[Any], Attrs], Any] | None = None,
    call: Callable[[Call, Any], Any] | None = None,
    attrs: Mapping[str, Attr] | None = None,
    sample: Mapping[str, Any] | None = None,
    operand: str = "self",
    check: Callable[[Attrs], None] | None = None,
    dims: DimRule = BY_ELEMENT,
    traits: Traits = ELEMENTWISE,
    limitations: tuple[Limitation, ...] = (FLOATS_ONLY,),
) -> OperatorInfo:
    """Declares an operator of one operand and one result. Overload, TTNN function and ATen reference follow the canonical name.

    ``call`` is only needed where TTNN's function takes more than the tensor, ``sample`` where an attribute has no default;
    ``check`` raises InvalidCase for attributes without a meaning.
    """
    name = names[0]
    function = ttnn or name
    run = call or (lambda c, x: getattr(c.ttnn, function)(x, **c.out))

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if check is not None:
            check(attrs)
        return [shapes[0]]

    return OperatorInfo(
        names=names,
        aten=(f"aten.{name}.default", f"aten.{name}_.default") if overloads is None else overloads,
        operands=(operand,),
        ttnn=f"ttnn.{function}",
        call=lambda c: run(c, c.inputs[0]),
        torch=torch or aten(name),
        infer=infer,
        attrs=attrs or {},
        sample=lambda shape: Sample((shape,), dict(sample or {})),
        dims=dims,
        traits=traits,
        limitations=limitations,
    )


def binary(
    names: tuple[str, ...],
    ttnn: str,
    *limitations: Limitation,
    overloads: tuple[str, ...] | None = None,
    takes_alpha: bool = False,
    takes_number: bool = True,
    number: float | None = None,
    program: Program | None = binary_program,
    whole: bool = False,
    promoted: Mapping[DType, DType] = {},
) -> OperatorInfo:
    """Declares an operator of two operands that broadcast, or (``takes_number``) of one and a number.

    The number is the attribute ``other``, which ``alpha`` multiplies. A listed shape is taken twice, or with ``number``. Where
    torch returns a bool, the result has the operand's dtype here, 1 for true: TTNN has no bool. ``promoted``: dtypes of
    operands to those of the results, where TTNN changes them.
    """
    name = names[0]

    def other(tensors: Sequence[Any], attrs: Attrs) -> Any:
        return tensors[1] if len(tensors) > 1 else attrs["other"] * attrs.get("alpha", 1)

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if takes_number and (len(shapes) == 2) == (attrs["other"] is not None):
            raise InvalidCase(f"{name} takes two tensors, or one tensor and the number other")
        return broadcast(shapes, attrs)

    def torch(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        alpha = {"alpha": attrs["alpha"]} if takes_alpha and len(tensors) > 1 else {}
        result = getattr(torch.ops.aten, name)(tensors[0], other(tensors, attrs), **alpha)
        return result.to(tensors[0].dtype) if result.dtype is torch.bool else result

    return OperatorInfo(
        names=names,
        aten=tuple(f"aten.{name}{suffix}.{kind}" for suffix in ("", "_") for kind in ("Tensor", "Scalar"))
        if overloads is None
        else overloads,
        operands=("self", "other?" if takes_number else "other"),
        ttnn=f"ttnn.{ttnn}",
        call=lambda c: getattr(c.ttnn, ttnn)(c.inputs[0], other(c.inputs, c.attrs), **c.out),
        torch=torch,
        infer=infer,
        attrs={
            **({"other": Attr("float|none", None)} if takes_number else {}),
            **({"alpha": Attr("float", 1)} if takes_alpha else {}),
        },
        sample=lambda shape: Sample((shape, shape), {}) if number is None else Sample((shape,), {"other": number}),
        dims=BY_ELEMENT,
        traits=Traits(
            program=program,
            whole=whole,
            output_dtypes=(lambda dtype, shapes, attrs: (promoted.get(dtype),)) if promoted else (),
        ),
        limitations=(
            *limitations,
            *(() if DType.UINT8 in promoted else (NO_BYTES,)),
            *((NO_FRACTIONS,) if takes_number else ()),
            NO_HIGH_RANK_BROADCAST,
            *((NO_TENSOR_ALPHA,) if takes_alpha else ()),
        ),
    )
