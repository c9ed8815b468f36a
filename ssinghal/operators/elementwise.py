"""Elementwise operators: one result of the (broadcast) shape of the operands.

torch's in-place overloads (``add_``, ``relu_`` …) are run as TTNN's plain call, which returns a new tensor, as model ports do.
Only ``copy`` and ``silu_`` are in place here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.cases import Case
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators.core import (
    INTEGERS,
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    aten,
    broadcast,
    operand_spec,
    tiles_twice,
)
from ssinghal.specs import DType, Layout, Shape, TensorSpec

Specs = Sequence[TensorSpec]

ANY_ALIGNMENT_BYTES = 64  # a multiple of the alignment of every memory of every board
MAX_BROADCAST_RANK = 6

FLOATS_ONLY = Limitation("TTNN computes it on floating-point dtypes only", dtypes=INTEGERS)
SIGNED_ONLY = Limitation("TTNN computes it on signed dtypes only", dtypes=(DType.UINT8, DType.UINT16, DType.UINT32))


def copied_pages(inputs: Specs, outputs: Specs) -> int | None:
    """Program buffers of a copy: two pages of the operand. Unknown for rows that some memory would pad to its alignment."""
    page_bytes = inputs[0].page_bytes
    if inputs[0].layout is Layout.ROW_MAJOR and page_bytes % ANY_ALIGNMENT_BYTES:
        return None
    return 2 * page_bytes


def copied_tiles(inputs: Specs, outputs: Specs) -> int | None:
    """As ``copied_pages``, but unknown for row-major tensors, whose long rows ``ttnn.copy`` cuts."""
    return copied_pages(inputs, outputs) if inputs[0].layout is Layout.TILE else None


def binary_program(inputs: Specs, outputs: Specs) -> int:
    """Two tiles for each tensor; a number is one more tile (32-bit for 32-bit operands, else bfloat16); where rows or columns
    are broadcast, the repeated ones are built in two more. Row-major rows go through buffers of the same size."""
    tile_bytes = inputs[0].dtype.tile_bytes
    if len(inputs) == 1:
        return tiles_twice(inputs, outputs) + max(tile_bytes, DType.BFLOAT16.tile_bytes)
    a, b = (_last_two(spec.shape) for spec in inputs)
    return tiles_twice(inputs, outputs) + (2 * tile_bytes if a != b else 0)


def _last_two(shape: Shape) -> Shape:
    return (1, *shape)[-2:]


def equal_shapes_program(inputs: Specs, outputs: Specs) -> int | None:
    """Two tiles for each tensor; unknown where one is broadcast."""
    return tiles_twice(inputs, outputs) if len({spec.shape for spec in inputs}) == 1 else None


def _broadcasts_high_rank(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return max(map(len, shapes)) > MAX_BROADCAST_RANK and len(set(shapes)) > 1


def _scales_a_tensor(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return len(shapes) > 1 and bool(attrs["alpha"] != 1)


NO_BYTES = Limitation("TTNN's binary kernels do not take uint8", dtypes=(DType.UINT8,))
NO_HIGH_RANK_BROADCAST = Limitation(f"TTNN broadcasts up to rank {MAX_BROADCAST_RANK}", when=_broadcasts_high_rank)
NO_TENSOR_ALPHA = Limitation("alpha of a tensor is another TTNN function (ttnn.addalpha, ttnn.subalpha)", when=_scales_a_tensor)
NO_FRACTIONS = Limitation(
    "integers with a fraction: TTNN refuses the number, cuts it, or returns float32",
    dtypes=INTEGERS,
    when=lambda shapes, attrs: isinstance(attrs["other"], float),
)

ELEMENTWISE = Traits(program=tiles_twice)


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
    traits: Traits = ELEMENTWISE,
    limitations: tuple[Limitation, ...] = (FLOATS_ONLY,),
) -> OperatorInfo:
    """One operand, one result. What is not given goes by the canonical name: overload, TTNN function, ATen reference.

    ``call`` is only needed where TTNN's function takes more than the tensor, ``sample`` where an attribute has no default.
    """
    name = names[0]
    function = ttnn or name
    run = call or (lambda c, x: getattr(c.ttnn, function)(x, **c.out))
    return OperatorInfo(
        names=names,
        aten=(f"aten.{name}.default", f"aten.{name}_.default") if overloads is None else overloads,
        operands=(operand,),
        ttnn=f"ttnn.{function}",
        call=lambda c: run(c, c.inputs[0]),
        torch=torch or aten(name),
        attrs=attrs or {},
        sample=lambda shape: Sample((shape,), dict(sample or {})),
        traits=traits,
        limitations=limitations,
    )


def binary(names: tuple[str, ...], ttnn: str, *limitations: Limitation, takes_alpha: bool = False) -> OperatorInfo:
    """Two operands that broadcast, or one and the number ``other``, which ``alpha`` multiplies."""
    name = names[0]

    def other(tensors: Sequence[Any], attrs: Attrs) -> Any:
        return tensors[1] if len(tensors) > 1 else attrs["other"] * attrs.get("alpha", 1)

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        if (len(shapes) == 2) == (attrs["other"] is not None):
            raise InvalidCase(f"{name} takes two tensors, or one tensor and the number other")
        return broadcast(shapes, attrs)

    def torch(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        alpha = {"alpha": attrs["alpha"]} if takes_alpha and len(tensors) > 1 else {}
        return getattr(torch.ops.aten, name)(tensors[0], other(tensors, attrs), **alpha)

    return OperatorInfo(
        names=names,
        aten=tuple(f"aten.{name}{suffix}.{kind}" for suffix in ("", "_") for kind in ("Tensor", "Scalar")),
        operands=("self", "other?"),
        ttnn=f"ttnn.{ttnn}",
        call=lambda c: getattr(c.ttnn, ttnn)(c.inputs[0], other(c.inputs, c.attrs), **c.out),
        torch=torch,
        infer=infer,
        attrs={"other": Attr("float|none", None), **({"alpha": Attr("float", 1)} if takes_alpha else {})},
        sample=lambda shape: Sample((shape, shape), {}),
        traits=Traits(program=binary_program),
        limitations=(
            *limitations,
            NO_BYTES,
            NO_FRACTIONS,
            NO_HIGH_RANK_BROADCAST,
            *((NO_TENSOR_ALPHA,) if takes_alpha else ()),
        ),
    )


def comparison(name: str) -> OperatorInfo:
    """A tensor against a number. The result has the operand's dtype, 1 for true: TTNN has no bool."""
    return unary(
        (name,),
        (f"aten.{name}.Scalar",),
        torch=lambda t, tensors, a: getattr(t, name)(tensors[0], a["other"]).to(tensors[0].dtype),
        call=lambda c, x: getattr(c.ttnn, name)(x, c.attrs["other"], **c.out),
        attrs={"other": Attr("float")},
        sample={"other": 0.0},
        traits=Traits(program=binary_program),
        limitations=(NO_BYTES, NO_FRACTIONS),
    )


# clamp, dropout -----------------------------------------------------------------------------------------------------------


def _clamp(c: Call, x: Any) -> Any:
    limits = {name: c.attrs[name] for name in ("min", "max") if c.attrs.get(name) is not None}
    return c.ttnn.clamp(x, **limits, **c.out)


def _infer_clamp(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if attrs["min"] is None and attrs["max"] is None:
        raise InvalidCase("clamp needs min, max or both")
    return [shapes[0]]


def _dropout(c: Call, x: Any) -> Any:
    """In eval mode torch's dropout is the identity; the kernel then runs with nothing to drop."""
    probability = c.attrs["p"] if c.attrs["train"] else 0.0
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return c.ttnn.experimental.dropout(x, probability=probability, scale=scale, seed=0, **c.out)


# dtypes -------------------------------------------------------------------------------------------------------------------


def _dtype_asked(attrs: Attrs) -> DType | None:
    """The dtype of a cast, or None where TTNN lacks torch's. InvalidCase for a name that is no dtype."""
    name = attrs["dtype"].removeprefix("torch.")
    if name in TTNN_LACKS:
        return None
    try:
        return DType(name)
    except ValueError:
        raise InvalidCase(unknown("dtype", name, [*DType, *TTNN_LACKS])) from None


TTNN_LACKS = ("bool", "float16", "float64", "int8", "int16", "int64")


def _cast_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    return (_dtype_asked(attrs),)


def _cast(c: Call, x: Any) -> Any:
    return c.ttnn.typecast(x, getattr(c.ttnn, str(_dtype_asked(c.attrs))), **c.out)


# in place -----------------------------------------------------------------------------------------------------------------


def _infer_copy(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if broadcast(shapes, attrs) != [shapes[0]]:
        raise InvalidCase(f"copy: {list(shapes[1])} does not broadcast to {list(shapes[0])}")
    return [shapes[0]]


# choice by a mask ---------------------------------------------------------------------------------------------------------


def _placed_alike(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """All operands in the case's dtype, masks too: TTNN has no bool."""
    return [operand_spec(case, shape) for shape in shapes]


NOT_BFLOAT16 = tuple(d for d in DType if d is not DType.BFLOAT16)
SCALAR = {"other": Attr("float"), "alpha": Attr("float", 1)}
IGNORED = Attr("str|int|bool|none", None)

OPERATORS = (
    binary(("add",), "add", takes_alpha=True),
    binary(("sub",), "subtract", takes_alpha=True),
    binary(("mul",), "multiply"),
    binary(("div",), "divide", FLOATS_ONLY),
    unary(
        ("rsub",),
        ("aten.rsub.Scalar",),
        call=lambda c, x: c.ttnn.rsub(x, c.attrs["other"], **c.out),
        torch=lambda t, tensors, a: t.ops.aten.rsub(tensors[0], a["other"], a["alpha"]),
        attrs=SCALAR,
        sample={"other": 1.0},
        traits=Traits(),
        limitations=(
            NO_BYTES,
            NO_FRACTIONS,
            Limitation("ttnn.rsub does not scale its operand", when=lambda shapes, attrs: bool(attrs["alpha"] != 1)),
        ),
    ),
    unary(
        ("pow",),
        ("aten.pow.Tensor_Scalar",),
        call=lambda c, x: c.ttnn.pow(x, c.attrs["exponent"], **c.out),
        attrs={"exponent": Attr("float")},
        sample={"exponent": 2.0},
        traits=Traits(),  # the kernel depends on the exponent: a copy for 1, a fill for 0
    ),
    *map(comparison, ("eq", "ne", "gt", "ge", "lt", "le")),
    unary(("relu", "ReLU", "relu_"), limitations=()),
    unary(("silu", "SiLU"), ("aten.silu.default",)),
    unary(
        ("silu_", "silu_inplace"),
        ("aten.silu_.default",),
        ttnn="silu",
        torch=aten("silu"),
        call=lambda c, x: c.ttnn.silu(x, output_tensor=x),
        traits=Traits(program=tiles_twice, in_place=True, output_fixed=True),
    ),
    unary(("sigmoid", "Sigmoid")),
    unary(("tanh", "Tanh")),
    unary(("mish", "Mish")),
    unary(("hardswish", "Hardswish")),
    unary(
        ("gelu", "GELU", "geluactivation", "GELUActivation"),
        call=lambda c, x: c.ttnn.gelu(x, fast_and_approximate_mode=c.attrs["approximate"] == "tanh", **c.out),
        attrs={"approximate": Attr("str", "none")},
    ),
    unary(
        ("softplus", "Softplus"),
        ("aten.softplus.default",),
        call=lambda c, x: c.ttnn.softplus(x, beta=c.attrs["beta"], threshold=c.attrs["threshold"], **c.out),
        attrs={"beta": Attr("float", 1), "threshold": Attr("float", 20)},
    ),
    unary(
        ("leaky_relu", "leakyrelu", "LeakyReLU"),
        call=lambda c, x: c.ttnn.leaky_relu(x, c.attrs["negative_slope"], **c.out),
        attrs={"negative_slope": Attr("float", 0.01)},
    ),
    unary(
        ("hardtanh", "Hardtanh"),
        call=lambda c, x: c.ttnn.hardtanh(x, min_val=c.attrs["min_val"], max_val=c.attrs["max_val"], **c.out),
        attrs={"min_val": Attr("float", -1), "max_val": Attr("float", 1)},
    ),
    unary(("relu6", "ReLU6"), limitations=()),
    *(unary((name,)) for name in ("exp", "sin", "cos")),
    *(unary((name,), traits=replace(ELEMENTWISE, positive=(0,))) for name in ("log", "sqrt", "rsqrt", "reciprocal")),
    unary(("neg",), limitations=(SIGNED_ONLY,)),
    unary(("abs",), limitations=()),
    OperatorInfo(
        names=("clamp", "clip"),
        aten=("aten.clamp.default", "aten.clamp_.default"),
        operands=("self",),
        ttnn="ttnn.clamp",
        call=lambda c: _clamp(c, c.inputs[0]),
        torch=aten("clamp"),
        infer=_infer_clamp,
        attrs={"min": Attr("float|none", None), "max": Attr("float|none", None)},
        sample=lambda shape: Sample((shape,), {"min": 0.0, "max": 6.0}),
        traits=ELEMENTWISE,
        limitations=(FLOATS_ONLY,),
    ),
    unary(
        ("clamp_min", "clampmin"),
        ttnn="clamp",
        call=_clamp,
        attrs={"min": Attr("float")},
        sample={"min": 0.0},
    ),
    unary(("identity", "Identity"), (), torch=lambda t, tensors, a: tensors[0], limitations=()),
    unary(
        ("clone",),
        ("aten.clone.default",),
        attrs={"memory_format": IGNORED},
        traits=Traits(program=copied_pages),
        limitations=(),
    ),
    OperatorInfo(
        names=("copy", "copy_"),
        aten=("aten.copy_.default", "aten.copy.default"),
        operands=("self", "src"),
        ttnn="ttnn.copy",
        call=lambda c: c.ttnn.copy(c.inputs[1], c.inputs[0]),
        torch=aten("copy"),
        infer=_infer_copy,
        attrs={"non_blocking": Attr("bool", False)},
        sample=lambda shape: Sample((shape, shape), {}),
        traits=Traits(program=copied_tiles, in_place=True, output_fixed=True),
        limitations=(Limitation("ttnn.copy does not broadcast", when=lambda shapes, attrs: shapes[0] != shapes[1]),),
    ),
    unary(
        ("dropout", "Dropout"),
        ("aten.dropout.default", "aten.dropout_.default"),
        operand="input",
        ttnn="experimental.dropout",
        call=_dropout,
        attrs={"p": Attr("float", 0.5), "train": Attr("bool", True)},
        traits=Traits(program=tiles_twice, min_pcc=-1.0),  # torch drops other elements
        limitations=(
            Limitation(
                "ttnn.experimental.dropout takes bfloat16 only", dtypes=tuple(d for d in DType if d is not DType.BFLOAT16)
            ),
            Limitation("ttnn.experimental.dropout takes tile layout only", layouts=(Layout.ROW_MAJOR,)),
        ),
    ),
    unary(
        ("_to_copy", "typecast"),
        ("aten._to_copy.default",),
        ttnn="typecast",
        torch=lambda t, tensors, a: tensors[0].to(getattr(t, a["dtype"].removeprefix("torch."))),
        call=_cast,
        attrs={
            "dtype": Attr("str"),
            **{name: IGNORED for name in ("layout", "device", "pin_memory", "memory_format")},
            "non_blocking": Attr("bool", False),
        },
        sample={"dtype": "float32"},
        traits=Traits(program=tiles_twice, output_dtypes=_cast_dtypes),
        limitations=(
            Limitation(f"TTNN has none of {', '.join(TTNN_LACKS)}", when=lambda shapes, attrs: _dtype_asked(attrs) is None),
        ),
    ),
    OperatorInfo(
        names=("where",),
        aten=("aten.where.self",),
        operands=("condition", "self", "other"),
        ttnn="ttnn.where",
        call=lambda c: c.ttnn.where(*c.inputs, **c.out),
        torch=lambda t, tensors, a: t.where(tensors[0] != 0, tensors[1], tensors[2]),
        infer=broadcast,
        place=_placed_alike,
        sample=lambda shape: Sample((shape, shape, shape), {}),
        traits=Traits(program=equal_shapes_program),
        limitations=(Limitation("ttnn.where takes tile layout only", layouts=(Layout.ROW_MAJOR,)),),
    ),
    OperatorInfo(
        names=("masked_fill",),
        aten=("aten.masked_fill.Scalar",),
        operands=("self", "mask"),
        ttnn="ttnn.where",
        call=lambda c: c.ttnn.where(c.inputs[1], c.attrs["value"], c.inputs[0], **c.out),
        torch=lambda t, tensors, a: t.masked_fill(tensors[0], tensors[1] != 0, a["value"]),
        infer=broadcast,
        attrs={"value": Attr("float")},
        place=_placed_alike,
        sample=lambda shape: Sample((shape, shape), {"value": 0.0}),
        traits=Traits(program=equal_shapes_program),
        limitations=(Limitation("ttnn.where puts no number into 8- and 16-bit integers", dtypes=(DType.UINT8, DType.UINT16)),),
    ),
)

__all__ = ["OPERATORS"]
