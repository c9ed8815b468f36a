"""Maps an operation of TT-MLIR's ttnn dialect to a case, so that it can be tried on a device.

One row for each operation: the operator here that runs it, and how its operands and attributes map. The tensors that the case
would put on the device are compared with those of the operation: what single ones have of their own is carried into the case
(``operand_placement``), and where a case cannot have it, there is none, only the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import BufferType, Shape, TensorSpec, format_shape
from ssinghal.diagnose.mlir_settings import settings_in
from ssinghal.diagnose.model import Operation
from ssinghal.diagnose.operand_placement import core_shape, placed
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import find_operator, make_case
from ssinghal.operators.operator_info import OperatorInfo, to_nchw

DIALECT = "ttnn."
Attrs = dict[str, Any]


@dataclass(frozen=True)
class OpMapping:
    """The mapping of an operation to ``operator``.

    ``shapes(operation, shapes)`` returns the case's inputs from the operands' shapes; without it those are the inputs, in
    ``order`` where that differs. ``prepared``: inputs of the case that the compiler has brought to TTNN's own form, such as
    weights of a convolution, which are not compared. ``result_layout``: the case is placed in the layout of the result.
    ``puts_result``: nothing runs, the result is put on the device.
    """

    operator: str
    attrs: Callable[[Operation], Attrs] = lambda operation: {}
    shapes: Callable[[Operation, Sequence[Shape]], Sequence[Shape]] | None = None
    order: tuple[int, ...] | None = None
    prepared: tuple[int, ...] = ()
    result_layout: bool = False
    puts_result: bool = False

    def __post_init__(self) -> None:
        find_operator(self.operator)  # so that a mistyped name fails at import

    @property
    def info(self) -> OperatorInfo:
        return find_operator(self.operator)


def case_of(operation: Operation) -> Case:
    """Returns the call of ``operation`` with its own tensors.

    Raises:
        InvalidCase: no case is this call: the operation has no counterpart here, an operand is of unknown type or in shards
            that the text does not have, or the operator has no such operand or result.
    """
    name = operation.name.removeprefix(DIALECT)
    if name not in OP_MAPPINGS:
        raise InvalidCase(f"{operation.name}: {unknown('operation', name, OP_MAPPINGS)}")
    mapping = OP_MAPPINGS[name]
    values = operation.results if mapping.puts_result else operation.operands
    operands = [value for value in values if value.spec is not None]
    specs = [value.spec for value in operands if value.spec is not None]
    info = mapping.info
    if len(specs) < info.min_operands:
        raise InvalidCase(f"{operation.name}: the text has the types of {len(specs)} operands; it takes {info.min_operands}")
    if mapping.order is not None and len(specs) == len(mapping.order):
        operands, specs = [operands[i] for i in mapping.order], [specs[i] for i in mapping.order]
    inputs = mapping.shapes(operation, [spec.shape for spec in specs]) if mapping.shapes else [spec.shape for spec in specs]
    attrs = {**mapping.attrs(operation), **settings_in(operation, info).attrs}
    case = make_case(mapping.operator, tuple(inputs), attrs, _placement(operation, mapping, specs))
    try:
        return placed(case, operands, () if mapping.puts_result else operation.results, mapping.prepared)
    except InvalidCase as error:
        raise InvalidCase(f"{operation.name}: {error}") from None


def left_out(operation: Operation) -> tuple[str, ...]:
    """Returns the settings of ``operation`` that its case lacks: with them, program buffers may have other sizes."""
    mapping = OP_MAPPINGS.get(operation.name.removeprefix(DIALECT))
    return settings_in(operation, mapping.info).left_out if mapping else ()


def _result_specs(operation: Operation) -> list[TensorSpec]:
    return [value.spec for value in operation.results if value.spec is not None]


def _placement(operation: Operation, mapping: OpMapping, operands: Sequence[TensorSpec]) -> Placement:
    """Returns the placement of the first operand (without operands: of the result), without shards."""
    results = _result_specs(operation)
    if not operands and not results:
        raise InvalidCase(f"{operation.name}: neither operands nor result have a type in the text")
    first = (operands or results)[0]
    if first.memory.buffer is BufferType.L1_SMALL:
        raise InvalidCase(f"{operation.name}: a tensor in l1_small, which is TTNN's own")
    layout = results[0].layout if mapping.result_layout and results else first.layout
    is_nhwc = bool(mapping.info.traits.nhwc)
    return Placement(first.dtype, layout, first.memory.buffer, channels_last=None if is_nhwc else False)


# Attributes ---------------------------------------------------------------------------------------------------------------


def _missing(operation: Operation, name: str, expected: str) -> InvalidCase:
    problem = f"{name} is {operation.attributes[name]!r}" if name in operation.attributes else f"no attribute {name}"
    return InvalidCase(f"{operation.name}: {problem}; expected {expected}")


def _int(operation: Operation, name: str, default: int | None = None) -> int:
    value = operation.attributes.get(name, default)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int):
        raise _missing(operation, name, "a whole number")
    return value


def _ints(operation: Operation, name: str, default: Sequence[int] | None = None) -> list[int]:
    value = operation.attributes.get(name, default)
    listed = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(x, int) and not isinstance(x, bool) for x in listed):
        raise _missing(operation, name, "whole numbers")
    return list(listed)


def _number(operation: Operation, name: str, default: float | None = None) -> float:
    value = operation.attributes.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _missing(operation, name, "a number")
    return value


def _flag(operation: Operation, name: str, default: bool = False) -> bool:
    value = operation.attributes.get(name, default)
    if str(value).lower() not in ("true", "false"):
        raise _missing(operation, name, "true or false")
    return str(value).lower() == "true"


def _word(operation: Operation, name: str, default: str | None = None) -> str:
    value = operation.attributes.get(name, default)
    if not isinstance(value, str):
        raise _missing(operation, name, "a name")
    return value


def _attrs(**readers: Callable[[Operation], Any]) -> Callable[[Operation], Attrs]:
    """Returns a function that reads attributes of a case from an operation, each by its own reader."""
    return lambda operation: {name: read(operation) for name, read in readers.items()}


def _an_int(name: str, default: int | None = None) -> Callable[[Operation], int]:
    return lambda operation: _int(operation, name, default)


def _a_list(name: str) -> Callable[[Operation], list[int]]:
    return lambda operation: _ints(operation, name)


def _a_number(name: str, default: float | None = None) -> Callable[[Operation], float]:
    return lambda operation: _number(operation, name, default)


def _a_flag(name: str, default: bool = False) -> Callable[[Operation], bool]:
    return lambda operation: _flag(operation, name, default)


# By their names in the dialect.
_DTYPES = {
    "bf16": "bfloat16", "f32": "float32", "bfp_bf8": "bfloat8_b", "bfp_bf4": "bfloat4_b",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "si32": "int32",
}  # fmt: skip


def _cast(operation: Operation) -> Attrs:
    name = _word(operation, "dtype")
    if name not in _DTYPES:
        raise InvalidCase(f"{operation.name}: {unknown('dtype', name, _DTYPES)}")
    return {"dtype": _DTYPES[name]}


def _layout(operation: Operation) -> Attrs:
    """Returns the layout of the attribute, else of the result, and the dtype of the result where it changes."""
    results = _result_specs(operation)
    attrs = {"layout": _word(operation, "layout", results[0].layout.value if results else None)}
    operand_dtypes = {value.spec.dtype for value in operation.operands if value.spec is not None}
    return attrs if not results or operand_dtypes == {results[0].dtype} else {**attrs, "dtype": results[0].dtype.value}


# Shapes and windows -------------------------------------------------------------------------------------------------------


def _slice(operation: Operation) -> Attrs:
    """Returns the slice of the one dim that is cut, as a case cuts only one."""
    begins, ends = _ints(operation, "begins"), _ints(operation, "ends")
    steps = _ints(operation, "step", [1] * len(begins))
    (spec,) = [value.spec for value in operation.operands if value.spec is not None][:1]
    if not len(begins) == len(ends) == len(steps) == len(spec.shape):
        raise InvalidCase(f"{operation.name}: begins, ends and step do not match {format_shape(spec.shape)}")
    cut = [d for d, size in enumerate(spec.shape) if (begins[d], ends[d], steps[d]) != (0, size, 1)]
    if len(cut) > 1:
        raise InvalidCase(f"{operation.name}: cuts dims {cut} at once; a case of slice cuts one")
    dim = cut[0] if cut else 0
    return {"dim": dim, "start": begins[dim], "end": ends[dim], "step": steps[dim]}


def _pad(operation: Operation) -> Attrs:
    """Converts (before, after) for each dim, from the first, to torch's order, from the last."""
    flat = _ints(operation, "padding")
    if len(flat) % 2:
        raise _missing(operation, "padding", "two numbers for each dim")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    return {"pad": [size for pair in pairs for size in pair], "value": _number(operation, "value", 0.0)}


def _both_sides(operation: Operation) -> list[int]:
    """Returns a window's padding on both sides, from ``[h, w]`` or ``[top, left, bottom, right]``."""
    padding = _ints(operation, "padding", [0, 0])
    if len(padding) == 4:
        if padding[:2] != padding[2:]:
            raise InvalidCase(f"{operation.name}: padding {padding} differs between the sides")
        padding = padding[:2]
    return padding


_WINDOW = {"stride": _a_list("stride"), "padding": _both_sides, "ceil_mode": _a_flag("ceil_mode")}


def _map_shape(operation: Operation) -> Shape:
    """Returns the NCHW shape of a map that the operation takes flat, [1, 1, N*H*W, C]."""
    channels = "channels" if "channels" in operation.attributes else "in_channels"
    sizes = [_int(operation, name) for name in ("batch_size", channels, "input_height", "input_width")]
    return tuple(sizes)


def _pooled(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    return [_map_shape(operation)]


def _convolved(transposed: bool) -> Callable[[Operation, Sequence[Shape]], list[Shape]]:
    def shapes_of(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
        """Returns torch's map, weight and bias from the numbers of the call: the compiler has prepared the tensors."""
        groups = _int(operation, "groups", 1)
        first, second = _int(operation, "in_channels"), _int(operation, "out_channels")
        ends = (first, second // groups) if transposed else (second, first // groups)
        weight = (*ends, *_ints(operation, "kernel_size"))
        bias = [(second,)] if len(shapes) > 2 else []
        return [_map_shape(operation), weight, *bias]

    return shapes_of


def _convolved_volume(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    sides = [_int(operation, name) for name in ("input_depth", "input_height", "input_width")]
    first, second = _int(operation, "in_channels"), _int(operation, "out_channels")
    weight = (second, first // _int(operation, "groups", 1), *_ints(operation, "kernel_size"))
    return [(_int(operation, "batch_size"), first, *sides), weight, *([(second,)] if len(shapes) > 2 else [])]


def _volume(operation: Operation) -> Attrs:
    if _word(operation, "padding_mode", "zeros") != "zeros":
        raise InvalidCase(f"{operation.name}: padding_mode {operation.attributes['padding_mode']!r}; a case pads with zeros")
    return {
        "stride": _ints(operation, "stride"),
        "padding": _ints(operation, "padding"),
        "groups": _int(operation, "groups", 1),
    }


_CONVOLUTION = {
    "stride": _a_list("stride"),
    "padding": _both_sides,
    "dilation": lambda operation: _ints(operation, "dilation", [1, 1]),
    "groups": _an_int("groups", 1),
}


def _upsample(operation: Operation) -> Attrs:
    factors = _ints(operation, "scale_factor")
    return {"scale_factors": [float(factor) for factor in (factors * 2 if len(factors) == 1 else factors)]}


def _first_as_nchw(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    return [to_nchw(shapes[0]), *shapes[1:]]


# Matrices, normalizations, reductions -------------------------------------------------------------------------------------


def _linear(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """Returns the shapes of a linear layer: the weight is [out, in] in a case, on the device [in, out] unless the call
    transposes it; the bias is a row."""
    x, weight, *bias = shapes
    if len(core_shape(weight)) > 2 or len(weight) < 2:
        raise InvalidCase(f"{operation.name}: a batch of weights {format_shape(weight)}; a case has one matrix")
    matrix = weight[-2:] if _flag(operation, "transpose_b") else (weight[-1], weight[-2])
    return [x, matrix, *((math.prod(b),) for b in bias)]


def _last_dim(operation: Operation) -> Attrs:
    """Returns the attributes of a normalization over the last dim of the first operand."""
    spec = operation.operands[0].spec
    return {"normalized_shape": [spec.shape[-1]] if spec else [], "eps": _number(operation, "epsilon", 1e-5)}


def _vectors(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """Flattens the operands after the first, which have one value per channel, whatever their rank."""
    return [shapes[0], *((math.prod(s),) for s in shapes[1:])]


def _grouped(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """Returns [N, 1, H*W, C] as a map of one row, [N, C, 1, H*W]; weight and bias have one value per channel."""
    if len(shapes[0]) != 4 or shapes[0][1] != 1:
        raise InvalidCase(f"{operation.name}: {format_shape(shapes[0])}; expected [N, 1, height x width, channels]")
    return [to_nchw(shapes[0]), *((shapes[0][3],) for _ in shapes[1:])]


def _reduced(operation: Operation) -> Attrs:
    dims = _ints(operation, "dim_arg", [])
    return {"dim": dims or None, "keepdim": _flag(operation, "keep_dim", True)}


def _reduced_to_extremes(operation: Operation) -> Attrs:
    return {"dim": _ints(operation, "dim_arg", []), "keepdim": _flag(operation, "keep_dim", True)}


def _limits(operation: Operation) -> Attrs:
    return {name: _number(operation, name) for name in ("min", "max") if name in operation.attributes}


_SAME_NAME = (
    *("add", "maximum", "minimum", "relu", "silu", "sigmoid", "tanh", "mish", "hardsigmoid", "gelu", "exp", "expm1", "erf"),
    *("sin", "cos", "floor", "ceil", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "sign", "relu6"),
    *("eq", "ne", "gt", "ge", "lt", "le", "logical_and", "logical_or", "logical_xor", "logical_not", "where"),
)
_OTHER_NAME = {"subtract": "sub", "multiply": "mul", "divide": "div"}

OP_MAPPINGS: Mapping[str, OpMapping] = {
    **{name: OpMapping(name) for name in _SAME_NAME},
    **{name: OpMapping(operator) for name, operator in _OTHER_NAME.items()},
    "leaky_relu": OpMapping("leaky_relu", _attrs(negative_slope=_a_number("parameter", 0.01))),
    "pow_scalar": OpMapping("pow", _attrs(exponent=_a_number("rhs"))),
    "clamp_scalar": OpMapping("clamp", _limits),
    "typecast": OpMapping("_to_copy", _cast),
    # memory, layout, shape, order
    "empty": OpMapping("place", puts_result=True),
    "to_device": OpMapping("place", puts_result=True),
    "to_memory_config": OpMapping("to_memory_config"),
    "to_layout": OpMapping("to_layout", _layout),
    "tilize": OpMapping("tilize"),
    "untilize": OpMapping("untilize"),
    "reshape": OpMapping("view", _attrs(size=_a_list("shape"))),
    "permute": OpMapping("permute", _attrs(dims=_a_list("permutation"))),
    "transpose": OpMapping("transpose", _attrs(dim0=_an_int("dim0"), dim1=_an_int("dim1"))),
    "concat": OpMapping("cat", _attrs(dim=_an_int("dim"))),
    "slice": OpMapping("slice", _slice),
    "slice_static": OpMapping("slice", _slice),
    "pad": OpMapping("constant_pad_nd", _pad),
    "repeat": OpMapping("repeat", _attrs(repeats=_a_list("repeat_dims"))),
    "repeat_interleave": OpMapping("repeat_interleave", _attrs(repeats=_an_int("repeats"), dim=_an_int("dim"))),
    "embedding": OpMapping("embedding", order=(1, 0), result_layout=True),
    "gather": OpMapping("gather", _attrs(dim=_an_int("dim"))),
    # matrices
    "matmul": OpMapping("matmul"),
    "linear": OpMapping("linear", shapes=_linear),
    "scaled_dot_product_attention": OpMapping("scaled_dot_product_attention", _attrs(is_causal=_a_flag("is_causal", True))),
    "paged_scaled_dot_product_attention_decode": OpMapping(
        "paged_scaled_dot_product_attention_decode", _attrs(is_causal=_a_flag("is_causal", True))
    ),
    # heads and caches
    "concatenate_heads": OpMapping("concatenate_heads"),
    "nlp_concat_heads": OpMapping("nlp_concat_heads"),
    "nlp_concat_heads_decode": OpMapping("nlp_concat_heads_decode", _attrs(num_heads=_an_int("num_heads"))),
    "rotary_embedding": OpMapping("rotary_embedding"),
    "rotary_embedding_llama": OpMapping("rotary_embedding_llama", _attrs(is_decode_mode=_a_flag("is_decode_mode"))),
    "paged_update_cache": OpMapping("paged_update_cache", _attrs(share_cache=_a_flag("share_cache"))),
    # rows
    "softmax": OpMapping("softmax", _attrs(dim=_an_int("dimension"))),
    "mean": OpMapping("mean", _reduced),
    "sum": OpMapping("sum", _reduced),
    "max": OpMapping("amax", _reduced_to_extremes),
    "min": OpMapping("amin", _reduced_to_extremes),
    "argmax": OpMapping("argmax", _attrs(dim=_an_int("dim"), keepdim=_a_flag("keep_dim"))),
    "layer_norm": OpMapping("layer_norm", _last_dim, _vectors),
    "rms_norm": OpMapping("rms_norm", _last_dim, _vectors),
    "batch_norm_inference": OpMapping(
        "native_batch_norm", _attrs(eps=_a_number("epsilon", 1e-5)), _vectors, order=(0, 3, 4, 1, 2)
    ),
    "group_norm": OpMapping("group_norm", _attrs(num_groups=_an_int("num_groups"), eps=_a_number("epsilon", 1e-12)), _grouped),
    # maps and volumes
    "max_pool2d": OpMapping(
        "max_pool2d", _attrs(kernel_size=_a_list("kernel_size"), dilation=_a_list("dilation"), **_WINDOW), _pooled
    ),
    "avg_pool2d": OpMapping(
        "avg_pool2d",
        _attrs(kernel_size=_a_list("kernel_size"), count_include_pad=_a_flag("count_include_pad", True), **_WINDOW),
        _pooled,
    ),
    "upsample": OpMapping("upsample_nearest2d", _upsample, _first_as_nchw),
    "conv2d": OpMapping("convolution", _attrs(**_CONVOLUTION), _convolved(transposed=False), prepared=(1, 2)),
    "conv_transpose2d": OpMapping(
        "conv_transpose2d",
        _attrs(output_padding=_a_list("output_padding"), **_CONVOLUTION),
        _convolved(transposed=True),
        prepared=(1, 2),
    ),
    "conv3d": OpMapping("convolution", _volume, _convolved_volume, prepared=(1, 2)),
    # no operands
    "ones": OpMapping("ones", _attrs(size=_a_list("shape"))),
    "zeros": OpMapping("zeros", _attrs(size=_a_list("shape"))),
    "full": OpMapping("full", _attrs(size=_a_list("shape"), fill_value=_a_number("fill_value"))),
}
