"""An operation of TT-MLIR's ttnn dialect as a case, so that it can be tried on a device.

One row for each operation: which operator of ours runs it, and how its operands and attributes map. A case says less than an
operation: one dtype, one layout and one memory for all operands. So the tensors that a case would put on the device are
compared with those of the operation, and where any differs there is no case, only the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.tensors import BufferType, Layout, Shape, TensorSpec, format_shape
from ssinghal.diagnose.model import MlirValue, Operation
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import find_operator, make_case
from ssinghal.operators.binding import specs_of
from ssinghal.operators.operator_info import OperatorInfo, to_nchw

DIALECT = "ttnn."
# Attributes that no case has, and that change how TTNN runs a call: its tensors are the same, its program buffers may not be.
TUNING = ("conv2d_config", "conv2d_slice_config", "matmul_program_config", "program_config", "compute_config", "activation")
Attrs = dict[str, Any]


@dataclass(frozen=True)
class OpMapping:
    """How an operation maps to ``operator``.

    ``shapes(operation, shapes)`` gives the case's inputs from the operands' shapes, else they are taken as they are, in
    ``order`` where that differs. ``prepared``: inputs of the case that the compiler has brought to a form of TTNN's own, such
    as weights of a convolution, which are not compared. ``result_layout``: the case is placed in the layout of the
    result. ``puts_result``: nothing runs, the result is put on the device.
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
    """The call of ``operation`` with its own tensors.

    Raises:
        InvalidCase: why no case is this call: an operation without a counterpart here, an operand of unknown type, tensors of
            several dtypes, layouts or memories, shards.
    """
    name = operation.name.removeprefix(DIALECT)
    if name not in FORMS:
        raise InvalidCase(f"{operation.name}: {unknown('operation', name, FORMS)}")
    form = FORMS[name]
    given = operation.results if form.puts_result else operation.operands
    operands = [value for value in given if value.spec is not None]
    specs = [value.spec for value in operands if value.spec is not None]
    info = form.info
    if len(specs) < info.min_operands:
        raise InvalidCase(f"{operation.name}: the text gives the types of {len(specs)} operands; it takes {info.min_operands}")
    if form.order is not None and len(specs) == len(form.order):
        operands, specs = [operands[i] for i in form.order], [specs[i] for i in form.order]
    for spec in (*specs, *_result_specs(operation)):
        if spec.memory.shard is not None:
            raise InvalidCase(f"{operation.name}: {format_shape(spec.shape)} is {spec.memory}; a case has interleaved tensors")
    shapes = [spec.shape for spec in specs]
    inputs = form.shapes(operation, shapes) if form.shapes else shapes
    case = make_case(form.operator, tuple(inputs), form.attrs(operation), _placement(operation, form, specs))
    _check_same(operation, form, case, operands)
    return case


def left_out(operation: Operation) -> tuple[str, ...]:
    """Attributes of ``operation`` that its case does not have: with them, program buffers may have other sizes."""
    return tuple(name for name in TUNING if operation.attributes.get(name) not in (None, "", [], {}))


def _result_specs(operation: Operation) -> list[TensorSpec]:
    return [value.spec for value in operation.results if value.spec is not None]


def _placement(operation: Operation, form: OpMapping, operands: Sequence[TensorSpec]) -> Placement:
    """As the first operand lies (a tensor made from nothing: its result), the result where the operation puts it."""
    results = _result_specs(operation)
    if not operands and not results:
        raise InvalidCase(f"{operation.name}: neither operands nor result have a type in the text")
    first = (operands or results)[0]
    shaped = results[0] if form.result_layout and results else first
    memory = first.memory.buffer
    output = OutputMemory.SAME
    if results and results[0].memory.buffer is not memory:
        output = OutputMemory(results[0].memory.buffer.value)
    if BufferType.L1_SMALL in (memory, *(spec.memory.buffer for spec in results)):
        raise InvalidCase(f"{operation.name}: a tensor in l1_small, which is TTNN's own")
    is_nhwc = bool(form.info.traits.nhwc)
    return Placement(first.dtype, shaped.layout, memory, output, channels_last=None if is_nhwc else False)


def _check_same(operation: Operation, form: OpMapping, case: Case, operands: Sequence[MlirValue]) -> None:
    """InvalidCase unless the case's tensors are those of the operation."""
    made_inputs, made_outputs = specs_of(case)
    compared = [(f"input {i}", made, value) for i, (made, value) in enumerate(zip(made_inputs, operands, strict=False), 1)]
    compared = [row for i, row in enumerate(compared) if i not in form.prepared]
    is_placed_by_ttnn = form.info.traits.moves_output
    outputs = zip(made_outputs, operation.results, strict=False)
    for label, made, value in (*compared, *(("result", made, value) for made, value in outputs)):
        if value.spec is None:
            continue
        only_values = not value.known_layout or (label == "result" and is_placed_by_ttnn)
        if fault := _difference(made, value.spec, only_values):
            raise InvalidCase(f"{operation.name}: {label} is {fault}; a case of {form.operator} cannot say so")


def _difference(made: TensorSpec, said: TensorSpec, only_values: bool) -> str:
    """What ``said`` has that ``made`` has not: dtype, layout and memory unless ``only_values``, shape."""
    if made.dtype is not said.dtype:
        return f"{said.dtype}, not {made.dtype}"
    if not only_values and made.layout is not said.layout:
        return f"{said.layout}, not {made.layout}"
    if not only_values and made.memory != said.memory:
        return f"in {said.memory}, not in {made.memory}"
    if _pages(made) != _pages(said):
        return f"{format_shape(said.shape)}, not {format_shape(made.shape)}"
    return ""


def _pages(spec: TensorSpec) -> Shape:
    """The shape as far as it decides what lies where: rows are rows however they are folded, leading dims of 1 are nothing."""
    return spec.padded_2d if spec.layout is Layout.ROW_MAJOR else _core_shape(spec.shape)


def _core_shape(shape: Shape) -> Shape:
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


# Attributes ---------------------------------------------------------------------------------------------------------------


def _missing(operation: Operation, name: str, expected: str) -> InvalidCase:
    given = operation.attributes.get(name)
    what = f"{name} is {given!r}" if name in operation.attributes else f"no attribute {name}"
    return InvalidCase(f"{operation.name}: {what}; expected {expected}")


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


def _named(**names: Callable[[Operation], Any]) -> Callable[[Operation], Attrs]:
    """Attributes of a case, each read from the operation by a function."""
    return lambda operation: {name: read(operation) for name, read in names.items()}


def _an_int(name: str, default: int | None = None) -> Callable[[Operation], int]:
    return lambda operation: _int(operation, name, default)


def _a_list(name: str) -> Callable[[Operation], list[int]]:
    return lambda operation: _ints(operation, name)


def _a_number(name: str, default: float | None = None) -> Callable[[Operation], float]:
    return lambda operation: _number(operation, name, default)


def _a_flag(name: str, default: bool = False) -> Callable[[Operation], bool]:
    return lambda operation: _flag(operation, name, default)


# dtype and layout, as the dialect names them
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
    """Told, or read off the result, as is the dtype where it changes."""
    results = _result_specs(operation)
    told = results[0].layout.value if results else None
    attrs = {"layout": _word(operation, "layout", told)}
    given = {value.spec.dtype for value in operation.operands if value.spec is not None}
    return attrs if not results or given == {results[0].dtype} else {**attrs, "dtype": results[0].dtype.value}


# Shapes and windows -------------------------------------------------------------------------------------------------------


def _slice(operation: Operation) -> Attrs:
    """Of one dim: ours cuts no more."""
    begins, ends = _ints(operation, "begins"), _ints(operation, "ends")
    steps = _ints(operation, "step", [1] * len(begins))
    (spec,) = [value.spec for value in operation.operands if value.spec is not None][:1]
    if not len(begins) == len(ends) == len(steps) == len(spec.shape):
        raise InvalidCase(f"{operation.name}: begins, ends and step do not suit {format_shape(spec.shape)}")
    cut = [d for d, size in enumerate(spec.shape) if (begins[d], ends[d], steps[d]) != (0, size, 1)]
    if len(cut) > 1:
        raise InvalidCase(f"{operation.name}: cuts dims {cut} at once; a case of slice cuts one")
    dim = cut[0] if cut else 0
    return {"dim": dim, "start": begins[dim], "end": ends[dim], "step": steps[dim]}


def _pad(operation: Operation) -> Attrs:
    """From (before, after) for each dim, the first one first, to torch's order, the last one first."""
    flat = _ints(operation, "padding")
    if len(flat) % 2:
        raise _missing(operation, "padding", "two numbers for each dim")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    return {"pad": [size for pair in pairs for size in pair], "value": _number(operation, "value", 0.0)}


def _both_sides(operation: Operation) -> list[int]:
    """Padding of a window, the same on both sides: ``[h, w]``, or ``[top, left, bottom, right]``."""
    padding = _ints(operation, "padding", [0, 0])
    if len(padding) == 4:
        if padding[:2] != padding[2:]:
            raise InvalidCase(f"{operation.name}: padding {padding} differs from side to side")
        padding = padding[:2]
    return padding


_WINDOW = {"stride": _a_list("stride"), "padding": _both_sides, "ceil_mode": _a_flag("ceil_mode")}


def _map_shape(operation: Operation) -> Shape:
    """NCHW of a map that the operation takes flat, [1, 1, N*H*W, C]."""
    channels = "channels" if "channels" in operation.attributes else "in_channels"
    sizes = [_int(operation, name) for name in ("batch_size", channels, "input_height", "input_width")]
    return tuple(sizes)


def _pooled(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    return [_map_shape(operation)]


def _convolved(transposed: bool) -> Callable[[Operation, Sequence[Shape]], list[Shape]]:
    def shapes_of(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
        """Map, weight and bias as torch has them, from the numbers of the call: the compiler has prepared the tensors."""
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


def _untransposed(operation: Operation) -> Attrs:
    if _flag(operation, "transpose_a") or _flag(operation, "transpose_b"):
        raise InvalidCase(f"{operation.name}: transposes an operand within the call, which a case does not")
    return {}


def _linear(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """The weight is written [out, in] and placed [in, out]; the bias is one row, whatever its rank."""
    x, weight, *bias = shapes
    if len(_core_shape(weight)) > 2 or len(weight) < 2:
        raise InvalidCase(f"{operation.name}: a batch of weights {format_shape(weight)}; a case has one matrix")
    return [x, (weight[-1], weight[-2]), *((math.prod(b),) for b in bias)]


def _last_dim(operation: Operation) -> Attrs:
    """Of the first operand, which is normalized over its last dim."""
    spec = operation.operands[0].spec
    return {"normalized_shape": [spec.shape[-1]] if spec else [], "eps": _number(operation, "epsilon", 1e-5)}


def _vectors(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """Operands after the first are one value per channel, whatever their rank."""
    return [shapes[0], *((math.prod(s),) for s in shapes[1:])]


def _grouped(operation: Operation, shapes: Sequence[Shape]) -> list[Shape]:
    """[N, 1, H*W, C] as a map of one row, [N, C, 1, H*W]; weight and bias are one value per channel."""
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

FORMS: Mapping[str, OpMapping] = {
    **{name: OpMapping(name) for name in _SAME_NAME},
    **{name: OpMapping(ours) for name, ours in _OTHER_NAME.items()},
    "leaky_relu": OpMapping("leaky_relu", _named(negative_slope=_a_number("parameter", 0.01))),
    "pow_scalar": OpMapping("pow", _named(exponent=_a_number("rhs"))),
    "clamp_scalar": OpMapping("clamp", _limits),
    "typecast": OpMapping("_to_copy", _cast),
    # other place, layout, shape or order
    "empty": OpMapping("place", puts_result=True),
    "to_device": OpMapping("place", puts_result=True),
    "to_memory_config": OpMapping("clone"),  # of an interleaved tensor: a copy
    "to_layout": OpMapping("to_layout", _layout),
    "tilize": OpMapping("tilize"),
    "untilize": OpMapping("untilize"),
    "reshape": OpMapping("view", _named(size=_a_list("shape"))),
    "permute": OpMapping("permute", _named(dims=_a_list("permutation"))),
    "transpose": OpMapping("transpose", _named(dim0=_an_int("dim0"), dim1=_an_int("dim1"))),
    "concat": OpMapping("cat", _named(dim=_an_int("dim"))),
    "slice": OpMapping("slice", _slice),
    "slice_static": OpMapping("slice", _slice),
    "pad": OpMapping("constant_pad_nd", _pad),
    "repeat": OpMapping("repeat", _named(repeats=_a_list("repeat_dims"))),
    "repeat_interleave": OpMapping("repeat_interleave", _named(repeats=_an_int("repeats"), dim=_an_int("dim"))),
    "embedding": OpMapping("embedding", order=(1, 0), result_layout=True),
    "gather": OpMapping("gather", _named(dim=_an_int("dim"))),
    # matrices
    "matmul": OpMapping("matmul", _untransposed),
    "linear": OpMapping("linear", _untransposed, _linear),
    "scaled_dot_product_attention": OpMapping("scaled_dot_product_attention", _named(is_causal=_a_flag("is_causal", True))),
    # rows
    "softmax": OpMapping("softmax", _named(dim=_an_int("dimension"))),
    "mean": OpMapping("mean", _reduced),
    "sum": OpMapping("sum", _reduced),
    "max": OpMapping("amax", _reduced_to_extremes),
    "min": OpMapping("amin", _reduced_to_extremes),
    "argmax": OpMapping("argmax", _named(dim=_an_int("dim"), keepdim=_a_flag("keep_dim"))),
    "layer_norm": OpMapping("layer_norm", _last_dim, _vectors),
    "rms_norm": OpMapping("rms_norm", _last_dim, _vectors),
    "batch_norm_inference": OpMapping(
        "native_batch_norm", _named(eps=_a_number("epsilon", 1e-5)), _vectors, order=(0, 3, 4, 1, 2)
    ),
    "group_norm": OpMapping("group_norm", _named(num_groups=_an_int("num_groups"), eps=_a_number("epsilon", 1e-12)), _grouped),
    # maps and volumes
    "max_pool2d": OpMapping(
        "max_pool2d", _named(kernel_size=_a_list("kernel_size"), dilation=_a_list("dilation"), **_WINDOW), _pooled
    ),
    "avg_pool2d": OpMapping(
        "avg_pool2d",
        _named(kernel_size=_a_list("kernel_size"), count_include_pad=_a_flag("count_include_pad", True), **_WINDOW),
        _pooled,
    ),
    "upsample": OpMapping("upsample_nearest2d", _upsample, _first_as_nchw),
    "conv2d": OpMapping("convolution", _named(**_CONVOLUTION), _convolved(transposed=False), prepared=(1, 2)),
    "conv_transpose2d": OpMapping(
        "conv_transpose2d",
        _named(output_padding=_a_list("output_padding"), **_CONVOLUTION),
        _convolved(transposed=True),
        prepared=(1, 2),
    ),
    "conv3d": OpMapping("convolution", _volume, _convolved_volume, prepared=(1, 2)),
    # made from nothing
    "ones": OpMapping("ones", _named(size=_a_list("shape"))),
    "zeros": OpMapping("zeros", _named(size=_a_list("shape"))),
    "full": OpMapping("full", _named(size=_a_list("shape"), fill_value=_a_number("fill_value"))),
}
