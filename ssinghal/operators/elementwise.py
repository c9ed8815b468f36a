"""Elementwise operators: one result of the (broadcast) shape of the operands.

torch's in-place overloads (``add_``, ``relu_`` …) run as TTNN's plain call, which returns a new tensor, as in ports of models.
Only ``copy``, ``silu_``, ``zero_`` and ``fill_`` are in place here too, and TTNN's own binary functions (``in_place.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import DType, Layout, Shape
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators.comparison import MASKS
from ssinghal.operators.elementwise_base import (
    BY_ELEMENT,
    ELEMENTWISE,
    FLOATS_ONLY,
    LIMITING,
    NO_BYTES,
    NO_FRACTIONS,
    NO_HIGH_RANK_BROADCAST,
    SIGNED_ONLY,
    binary,
    copied_pages,
    copied_tiles,
    unary,
)
from ssinghal.operators.operator_info import (
    INTEGERS,
    PLACED_DTYPES,
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
    tiles_twice,
)

# clamp, pow, division -----------------------------------------------------------------------------------------------------


def _clamp(c: Call, x: Any) -> Any:
    limits = {name: c.attrs[name] for name in ("min", "max") if c.attrs.get(name) is not None}
    return c.ttnn.clamp(x, **limits, **c.out)


def _check_clamp(attrs: Attrs) -> None:
    if attrs.get("min") is None and attrs.get("max") is None:
        raise InvalidCase("clamp needs min, max or both")


def _clamps_at_fractions(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return any(isinstance(attrs.get(name), float) for name in ("min", "max"))


CLAMP_LIMITATIONS = (
    SIGNED_ONLY,
    Limitation(
        "ttnn.clamp returns float32 for integers and a fraction", dtypes=INTEGERS, when=_clamps_at_fractions, taken=True
    ),
)


def _has_no_integer_power(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return bool(attrs["exponent"] < 0 or attrs["exponent"] != int(attrs["exponent"]))


def _multiplies(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Powers 0 and 1 are a fill and a copy."""
    return bool(attrs["exponent"] > 1)


POW_LIMITATIONS = (
    Limitation("ttnn.pow raises integers to whole powers from 0 on", dtypes=INTEGERS, when=_has_no_integer_power),
    Limitation("ttnn.pow multiplies integers in tile layout only", (Layout.ROW_MAJOR,), INTEGERS, when=_multiplies),
    Limitation("ttnn.pow does not multiply uint8", dtypes=(DType.UINT8,), when=_multiplies),
)


def _infer_quotient(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if attrs["rounding_mode"] not in ("floor", "trunc"):
        raise InvalidCase(unknown("rounding_mode", attrs["rounding_mode"], ("floor", "trunc")))
    if (len(shapes) == 2) == (attrs["other"] is not None):
        raise InvalidCase("floor_divide takes two tensors, or one tensor and the number other")
    return broadcast(shapes, attrs)


def _other(operands: Sequence[Any], attrs: Attrs) -> Any:
    return operands[1] if len(operands) > 1 else attrs["other"]


# activations --------------------------------------------------------------------------------------------------------------


def _check_gelu(attrs: Attrs) -> None:
    if attrs["approximate"] not in ("none", "tanh"):
        raise InvalidCase(unknown("approximate", attrs["approximate"], ("none", "tanh")))


def _gelu(c: Call, x: Any) -> Any:
    """The tanh form is a separate variant; releases before it have only a fast mode, which approximates the exact form."""
    is_tanh, variants = c.attrs["approximate"] == "tanh", getattr(c.ttnn, "GeluVariant", None)
    if is_tanh and variants is not None:
        return c.ttnn.gelu(x, variant=variants.Tanh, **c.out)
    return c.ttnn.gelu(x, fast_and_approximate_mode=is_tanh, **c.out)


def _check_dropout(attrs: Attrs) -> None:
    if not 0 <= attrs["p"] <= 1:
        raise InvalidCase(f"dropout: p {attrs['p']} is no probability")


def _dropout(c: Call, x: Any) -> Any:
    """In evaluation torch's dropout is the identity; the kernel then drops nothing."""
    probability = c.attrs["p"] if c.attrs["train"] else 0.0
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return c.ttnn.experimental.dropout(x, probability=probability, scale=scale, seed=0, **c.out)


# dtypes -------------------------------------------------------------------------------------------------------------------

TTNN_LACKS = ("bool", "float16", "float64", "int8", "int16")


def _target_dtype(attrs: Attrs) -> DType | None:
    """Returns the dtype of a cast, or None where TTNN lacks torch's. InvalidCase for a name that is no dtype."""
    name = attrs["dtype"].removeprefix("torch.")
    if name in TTNN_LACKS:
        return None
    if name not in PLACED_DTYPES:
        raise InvalidCase(unknown("dtype", name, [*PLACED_DTYPES, *TTNN_LACKS]))
    return PLACED_DTYPES[name]


def _cast_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    return (_target_dtype(attrs),)


def _cast(c: Call, x: Any) -> Any:
    return c.ttnn.typecast(x, getattr(c.ttnn, str(_target_dtype(c.attrs))), **c.out)


# in place -----------------------------------------------------------------------------------------------------------------


def _filled(name: str, value: Callable[[Attrs], float], attrs: dict[str, Attr]) -> OperatorInfo:
    """Declares ``zero_`` or ``fill_``, which overwrite the operand's own memory."""
    return unary(
        (name,),
        (f"aten.{name}.{'Scalar' if attrs else 'default'}",),
        ttnn="fill",
        torch=lambda t, tensors, a: t.full_like(tensors[0], value(a)),
        call=lambda c, x: c.ttnn.fill(x, value(c.attrs), output_tensor=x),
        attrs=attrs,
        sample={n: 1.0 for n in attrs},
        traits=Traits(program=tiles_twice, in_place=True, output_fixed=True),
        limitations=(Limitation("ttnn.fill does not take uint8", dtypes=(DType.UINT8,)),),
    )


def _infer_copy(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    if broadcast(shapes, attrs) != [shapes[0]]:
        raise InvalidCase(f"copy: {list(shapes[1])} does not broadcast to {list(shapes[0])}")
    return [shapes[0]]


NO_SHORTS = Limitation("TTNN compares 32-bit integers only", dtypes=(DType.UINT8, DType.UINT16))
NO_UNSIGNED_QUOTIENT = Limitation("TTNN divides no unsigned integers", dtypes=(DType.UINT8, DType.UINT16, DType.UINT32))
SCALAR = {"other": Attr("float"), "alpha": Attr("float", 1)}
IGNORED = Attr("str|int|bool|none", None)

OPERATORS = (
    binary(("add",), "add", takes_alpha=True),
    binary(("sub",), "subtract", takes_alpha=True),
    binary(("mul",), "multiply"),
    binary(("div",), "divide", NO_UNSIGNED_QUOTIENT, promoted={DType.INT32: DType.FLOAT32}),
    OperatorInfo(
        names=("floor_divide",),
        aten=("aten.floor_divide.default", "aten.floor_divide.Scalar", "aten.floor_divide_.Tensor"),
        operands=("self", "other?"),
        ttnn="ttnn.div",
        call=lambda c: c.ttnn.div(c.inputs[0], _other(c.inputs, c.attrs), rounding_mode=c.attrs["rounding_mode"], **c.out),
        torch=lambda t, tensors, a: t.div(tensors[0], _other(tensors, a), rounding_mode=a["rounding_mode"]),
        infer=_infer_quotient,
        attrs={"other": Attr("float|none", None), "rounding_mode": Attr("str", "floor")},
        sample=lambda shape: Sample((shape,), {"other": 2.0}),
        dims=BY_ELEMENT,
        traits=Traits(temporaries=True),
        limitations=(SIGNED_ONLY, NO_FRACTIONS, NO_HIGH_RANK_BROADCAST),
    ),
    *(
        binary((name,), name, NO_SHORTS, overloads=(f"aten.{name}.default",), takes_number=False)
        for name in ("maximum", "minimum")
    ),
    OperatorInfo(
        names=("addcmul",),
        aten=("aten.addcmul.default", "aten.addcmul_.default"),
        operands=("self", "tensor1", "tensor2"),
        ttnn="ttnn.addcmul",
        call=lambda c: c.ttnn.addcmul(*c.inputs, value=c.attrs["value"], **c.out),
        torch=lambda t, tensors, a: t.addcmul(*tensors, value=a["value"]),
        infer=broadcast,
        attrs={"value": Attr("float", 1)},
        sample=lambda shape: Sample((shape,) * 3, {}),
        dims=BY_ELEMENT,
        traits=Traits(temporaries=True),
        limitations=(
            Limitation("ttnn.addcmul takes tile layout only", layouts=(Layout.ROW_MAJOR,)),
            Limitation(
                "ttnn.addcmul takes no bfloat4_b, uint8 and uint16", dtypes=(DType.BFLOAT4_B, DType.UINT8, DType.UINT16)
            ),
            NO_HIGH_RANK_BROADCAST,
        ),
    ),
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
            Limitation("ttnn.rsub does not scale its operand", when=lambda s, attrs: bool(attrs["alpha"] != 1), taken=True),
        ),
    ),
    unary(
        ("pow",),
        ("aten.pow.Tensor_Scalar",),
        call=lambda c, x: c.ttnn.pow(x, c.attrs["exponent"], **c.out),
        attrs={"exponent": Attr("float")},
        sample={"exponent": 2.0},
        traits=Traits(),  # the kernel depends on the exponent: a copy for 1, a fill for 0
        limitations=POW_LIMITATIONS,
    ),
    unary(
        ("rpow",),
        ("aten.pow.Scalar",),
        operand="exponent",
        call=lambda c, x: c.ttnn.rpow(x, float(c.attrs["self"]), **c.out),
        torch=lambda t, tensors, a: t.pow(a["self"], tensors[0]),
        attrs={"self": Attr("float")},
        sample={"self": 2.0},
        traits=Traits(temporaries=True),
        limitations=(
            FLOATS_ONLY,
            Limitation("ttnn.rpow takes positive bases only", when=lambda s, attrs: bool(attrs["self"] <= 0), taken=True),
        ),
    ),
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
    unary(("hardswish", "Hardswish"), traits=LIMITING),
    unary(
        ("gelu", "GELU", "geluactivation", "GELUActivation"),
        call=_gelu,
        attrs={"approximate": Attr("str", "none")},
        check=_check_gelu,
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
        limitations=(
            Limitation(
                "refused although TTNN takes unsigned integers: it is for floating-point dtypes", dtypes=INTEGERS, taken=True
            ),
        ),
    ),
    unary(
        ("hardtanh", "Hardtanh"),
        call=lambda c, x: c.ttnn.hardtanh(x, min_val=c.attrs["min_val"], max_val=c.attrs["max_val"], **c.out),
        attrs={"min_val": Attr("float", -1), "max_val": Attr("float", 1)},
        traits=LIMITING,
    ),
    unary(("relu6", "ReLU6"), traits=LIMITING, limitations=()),
    unary(("hardsigmoid", "Hardsigmoid"), traits=LIMITING),
    unary(
        ("elu", "ELU"),
        call=lambda c, x: c.ttnn.elu(x, alpha=float(c.attrs["alpha"]), **c.out),
        attrs={name: Attr("float", 1) for name in ("alpha", "scale", "input_scale")},
        limitations=(
            FLOATS_ONLY,
            Limitation(
                "ttnn.elu does not scale", when=lambda s, attrs: attrs["scale"] != 1 or attrs["input_scale"] != 1, taken=True
            ),
        ),
    ),
    *(unary((name,)) for name in ("exp", "expm1", "erf", "sin", "cos", "floor", "ceil", "round", "sign")),
    *(
        unary((name,), traits=replace(ELEMENTWISE, positive=(0,)))
        for name in ("log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal")
    ),
    unary(("neg",), limitations=(SIGNED_ONLY,)),
    unary(("abs",), limitations=()),
    unary(("square",), limitations=(Limitation("ttnn.square does not take uint8", dtypes=(DType.UINT8,)),)),
    unary(
        ("clamp", "clip"),
        call=_clamp,
        attrs={"min": Attr("float|none", None), "max": Attr("float|none", None)},
        sample={"min": 0.0, "max": 6.0},
        check=_check_clamp,
        traits=LIMITING,
        limitations=CLAMP_LIMITATIONS,
    ),
    unary(
        ("clamp_min", "clampmin"),
        ttnn="clamp",
        call=_clamp,
        attrs={"min": Attr("float")},
        sample={"min": 0.0},
        traits=LIMITING,
        limitations=CLAMP_LIMITATIONS,
    ),
    unary(
        ("clamp_max",),
        ttnn="clamp",
        call=_clamp,
        attrs={"max": Attr("float")},
        sample={"max": 6.0},
        traits=LIMITING,
        limitations=CLAMP_LIMITATIONS,
    ),
    unary(("identity", "Identity"), (), torch=lambda t, tensors, a: tensors[0], limitations=()),
    unary(
        ("clone",),
        ("aten.clone.default", "aten.contiguous.default"),
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
        dims=BY_ELEMENT,
        traits=Traits(program=copied_tiles, in_place=True, output_fixed=True),
        limitations=(Limitation("ttnn.copy does not broadcast", when=lambda shapes, attrs: shapes[0] != shapes[1]),),
    ),
    _filled("zero_", lambda attrs: 0.0, {}),
    _filled("fill_", lambda attrs: attrs["value"], {"value": Attr("float")}),
    unary(
        ("dropout", "Dropout"),
        ("aten.dropout.default", "aten.dropout_.default"),
        operand="input",
        ttnn="experimental.dropout",
        call=_dropout,
        attrs={"p": Attr("float", 0.5), "train": Attr("bool", True)},
        check=_check_dropout,
        dims=replace(BY_ELEMENT, cut=None),  # pieces would draw other random numbers
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
        ("aten._to_copy.default", "aten.to.dtype", "aten.to.device", "aten.to.dtype_layout"),
        ttnn="typecast",
        torch=lambda t, tensors, a: tensors[0].to(getattr(t, a["dtype"].removeprefix("torch."))),
        call=_cast,
        attrs={
            "dtype": Attr("str"),
            **{name: IGNORED for name in ("layout", "device", "pin_memory", "memory_format")},
            "non_blocking": Attr("bool", False),
            "copy": Attr("bool", False),
        },
        sample={"dtype": "float32"},
        traits=Traits(program=tiles_twice, output_dtypes=_cast_dtypes),
        limitations=(
            Limitation(f"TTNN has none of {', '.join(TTNN_LACKS)}", when=lambda shapes, attrs: _target_dtype(attrs) is None),
        ),
    ),
    *MASKS,
)
