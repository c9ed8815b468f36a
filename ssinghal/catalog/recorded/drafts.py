"""Writes calls of TTNN functions in terms of operators: operands by torch's shapes, and attributes by torch's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssinghal.catalog.recorded.arguments import REQUIRED, Arguments
from ssinghal.catalog.recorded.calls import Member, RecordedTensor
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.operator_info import to_nchw

Attrs = dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """A call in terms of an operator, without its placement. ``tensors``: per operand, the recorded one; None where TTNN takes
    another form of it than the case has, as weights that are prepared already."""

    operator: str
    shapes: list[Shape]
    tensors: list[RecordedTensor | None]
    attrs: Attrs = field(default_factory=dict)
    result_dtype: str = "dtype"  # the argument that has the dtype of the result
    result_memory: str = "memory_config"


@dataclass(frozen=True)
class Function:
    """``parameters``: all that can be given by position. ``draft``: reads the arguments of the call."""

    parameters: tuple[str, ...]
    draft: Callable[[Arguments], Draft]


def _tensors(arguments: Arguments, names: Sequence[str], optional: Sequence[str] = ()) -> list[RecordedTensor]:
    found = []
    for name in names:
        tensor = arguments.tensor(name)
        if tensor is None:
            raise InvalidCase(f"{name} is not recorded")
        found.append(tensor)
    given = [(name, arguments.tensor(name)) for name in optional]
    missing = next((name for name, tensor in given if tensor is None), None)
    for name, tensor in given:
        if tensor is not None and missing is not None and optional.index(missing) < optional.index(name):
            raise InvalidCase(f"has {name} without {missing}")
        if tensor is not None:
            found.append(tensor)
    return found


def plain(
    operator: str,
    parameters: str,
    attrs: Callable[[Arguments], Attrs] = lambda arguments: {},
    operands: int = 1,
    optional: str = "",
    **names: str,
) -> Function:
    """Returns a function whose first ``operands`` parameters are the operands of a case, as they are."""
    listed = tuple(parameters.split())

    def draft(arguments: Arguments) -> Draft:
        tensors = _tensors(arguments, listed[:operands], optional.split())
        return Draft(operator, [tensor.shape for tensor in tensors], [*tensors], attrs(arguments), **names)

    return Function(listed, draft)


def with_scalar(operator: str, parameters: str = "input_tensor_a input_tensor_b") -> Function:
    """A function of two tensors, or of a tensor and a number."""
    names = tuple(parameters.split())

    def draft(arguments: Arguments) -> Draft:
        other = arguments.take(names[1], REQUIRED if arguments.call.has_arguments else None)
        if isinstance(other, RecordedTensor):
            tensors = [*_tensors(arguments, names[:1]), other]
            return Draft(operator, [tensor.shape for tensor in tensors], [*tensors])
        if isinstance(other, bool) or not isinstance(other, (int, float)):
            raise InvalidCase(f"{names[1]} is {'not recorded' if other is None else other}; expected a tensor or a number")
        (tensor,) = _tensors(arguments, names[:1])
        return Draft(operator, [tensor.shape], [tensor], {"other": other})

    return Function(names, draft)


# Shapes and order ---------------------------------------------------------------------------------------------------------


def size(arguments: Arguments) -> Attrs:
    shape = arguments.integers("shape")
    padded = arguments.take("padded_shape")
    if padded is not None and padded != shape:
        raise InvalidCase("has a padded shape of its own")
    return {"size": shape}


def concat(arguments: Arguments) -> Draft:
    tensors = arguments.tensors("tensors")
    return Draft("cat", [tensor.shape for tensor in tensors], [*tensors], {"dim": arguments.integer("dim", 0)})


def sliced(arguments: Arguments) -> Draft:
    (tensor,) = _tensors(arguments, ["input_tensor"])
    rank = len(tensor.shape)
    starts = arguments.integers("starts" if "starts" in arguments.rest() else "slice_start")
    ends = arguments.integers("ends" if "ends" in arguments.rest() else "slice_end")
    steps = arguments.integers("steps" if "steps" in arguments.rest() else "slice_step", [1] * rank)
    if not len(starts) == len(ends) == len(steps) == rank:
        raise InvalidCase(f"starts, ends and steps do not match {format_shape(tensor.shape)}")
    return _cut(tensor, [(start, end, step) for start, end, step in zip(starts, ends, steps, strict=True)])


def item(arguments: Arguments) -> Draft:
    """``tensor[:, :32]``, of which TTNN makes a slice."""
    (tensor,) = _tensors(arguments, ["input_tensor"])
    index = arguments.take("index", REQUIRED)
    parts = index if isinstance(index, list) else [index]
    if not all(isinstance(part, slice) for part in parts) or len(parts) > len(tensor.shape):
        raise InvalidCase(f"index {index}: expected slices, one for each dim")
    parts += [slice(None)] * (len(tensor.shape) - len(parts))
    return _cut(tensor, [part.indices(size) for part, size in zip(parts, tensor.shape, strict=True)])


def _cut(tensor: RecordedTensor, bounds: Sequence[tuple[int, int, int]]) -> Draft:
    cut = [dim for dim, size in enumerate(tensor.shape) if bounds[dim] != (0, size, 1)]
    if len(cut) > 1:
        raise InvalidCase(f"cuts dims {cut} at once; a case of slice cuts one")
    dim = cut[0] if cut else 0
    start, end, step = bounds[dim]
    return Draft("slice", [tensor.shape], [tensor], {"dim": dim, "start": start, "end": end, "step": step})


def pad(arguments: Arguments) -> Draft:
    (tensor,) = _tensors(arguments, ["input_tensor"])
    pairs = arguments.take("padding", REQUIRED)
    if not isinstance(pairs, list) or not all(
        isinstance(p, list) and len(p) == 2 and type(p[0]) is type(p[1]) is int for p in pairs
    ):
        raise InvalidCase(f"padding is {pairs}; expected two numbers for each dim")
    flat = [size for pair in pairs[::-1] for size in pair]
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return Draft("constant_pad_nd", [tensor.shape], [tensor], {"pad": flat, "value": arguments.number("value", 0.0)})


def to_layout(arguments: Arguments) -> Draft:
    (tensor,) = _tensors(arguments, ["tensor"])
    attrs: Attrs = {"layout": arguments.word("layout")}
    dtype = arguments.dtype("dtype")
    if dtype is None and attrs["layout"] == "row_major" and tensor.dtype.is_block_float and arguments.call.results:
        dtype = arguments.call.results[0].dtype
    return Draft("to_layout", [tensor.shape], [tensor], {**attrs, **({"dtype": dtype.value} if dtype else {})})


def typecast(arguments: Arguments) -> Attrs:
    dtype = arguments.dtype("dtype")
    if dtype is None:
        raise InvalidCase("dtype is not recorded")
    return {"dtype": dtype.value}


def reduced(operator: str) -> Function:
    def attrs(arguments: Arguments) -> Attrs:
        dim = arguments.take("dim")
        if dim is not None and type(dim) is not int and not (isinstance(dim, list) and all(type(d) is int for d in dim)):
            raise InvalidCase(f"dim is {dim}; expected whole numbers")
        if dim is None and operator in ("amax", "amin"):
            dim = []
        return {"dim": dim, "keepdim": arguments.flag("keepdim")}

    return plain(operator, "input_tensor dim keepdim", attrs)


def moved(operator: str, parameters: str, *, memory: str = "memory_config", dtype: str = "dtype") -> Function:
    """A function that moves a tensor, and has its own names for where to: ``memory`` and ``dtype``."""
    return plain(operator, parameters, result_memory=memory, result_dtype=dtype)


def to_shards(arguments: Arguments) -> Draft:
    """The shards are one memory config, or a grid with shape, scheme and orientation, which the result has then."""
    (tensor,) = _tensors(arguments, ["input_tensor"])
    target = arguments.rest().get("sharded_memory_config")
    if target is not None and not isinstance(target, MemoryRequest):
        for name in ("sharded_memory_config", "shard_shape", "shard_scheme", "shard_orientation"):
            arguments.take(name)
        result = next(iter(arguments.call.results), None)
        if result is None:
            raise InvalidCase("shards by a grid, and the result is not recorded")
        arguments.give("sharded_memory_config", result.memory)

    shape = [tensor.shape]
    return Draft("interleaved_to_sharded", shape, [tensor], {}, "output_dtype", "sharded_memory_config")


# Matrices and rows --------------------------------------------------------------------------------------------------------


def linear(arguments: Arguments) -> Draft:
    """The weight of a linear layer is [out, in] in a case, [in, out] on the device; its bias is a row."""
    x, weight, *bias = _tensors(arguments, ["input_tensor_a", "input_tensor_b"], ["bias"])
    shape = _without_ones(weight.shape)
    if len(shape) != 2:
        raise InvalidCase(f"a batch of weights {format_shape(weight.shape)}; a case has one matrix")
    biases = [(math.prod(one.shape),) for one in bias]
    return Draft("linear", [x.shape, (shape[1], shape[0]), *biases], [x, weight, *bias])


def _without_ones(shape: Shape) -> Shape:
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


def normalized(operator: str) -> Callable[[Arguments], Draft]:
    def draft(arguments: Arguments) -> Draft:
        x, *rest = _tensors(arguments, ["input_tensor"], ["weight", "bias"] if operator == "layer_norm" else ["weight"])
        attrs = {"normalized_shape": [x.shape[-1]], "eps": arguments.number("epsilon", 1e-12)}
        return Draft(operator, [x.shape, *((math.prod(one.shape),) for one in rest)], [x, *rest], attrs)

    return draft


def grouped(arguments: Arguments) -> Draft:
    """[N, 1, H*W, C] is a map of one row, [N, C, 1, H*W]; weight and bias have one value per channel."""
    x, *rest = _tensors(arguments, ["input_tensor"], ["weight", "bias"])
    if len(x.shape) != 4 or x.shape[1] != 1:
        raise InvalidCase(f"{format_shape(x.shape)}; expected [N, 1, height x width, channels]")
    attrs = {"num_groups": arguments.integer("num_groups"), "eps": arguments.number("epsilon", 1e-12)}
    return Draft("group_norm", [to_nchw(x.shape), *((x.shape[3],) for _ in rest)], [x, *(None for _ in rest)], attrs)


def attention(arguments: Arguments) -> Draft:
    names = ["input_tensor_q", "input_tensor_k", "input_tensor_v"]
    tensors = _tensors(arguments, names, ["attn_mask"])
    attrs: Attrs = {"is_causal": arguments.flag("is_causal", True)}
    scale = arguments.take("scale")
    if scale is not None:
        attrs["scale"] = scale
    if tensors[0].shape[1] != tensors[1].shape[1]:
        attrs["enable_gqa"] = True
    return Draft("scaled_dot_product_attention", [tensor.shape for tensor in tensors], [*tensors], attrs)


def embedding(arguments: Arguments) -> Draft:
    indices, weight = _tensors(arguments, ["input_tensor", "weight"])
    layout = arguments.take("layout")
    if isinstance(layout, Member) and arguments.call.results and arguments.call.results[0].layout != layout.name.lower():
        raise InvalidCase(f"layout is {layout}, and the result is {arguments.call.results[0]}")
    return Draft("embedding", [weight.shape, indices.shape], [weight, indices])


# Maps ---------------------------------------------------------------------------------------------------------------------

_IGNORED = ("return_output_dim", "return_weights_and_bias", "in_place_halo")


def _both_sides(padding: list[int]) -> list[int]:
    """Returns the padding of ``[h, w]`` or ``[top, bottom, left, right]``."""
    if len(padding) == 4:
        if padding[0] != padding[1] or padding[2] != padding[3]:
            raise InvalidCase(f"padding {padding} differs between the sides")
        return [padding[0], padding[2]]
    return padding


def _map_shape(arguments: Arguments, channels: str, height: str, width: str) -> Shape:
    return (
        arguments.integer("batch_size"),
        arguments.integer(channels),
        arguments.integer(height),
        arguments.integer(width),
    )


def pooled(operator: str) -> Callable[[Arguments], Draft]:
    def draft(arguments: Arguments) -> Draft:
        (x,) = _tensors(arguments, ["input_tensor"])
        shape = _map_shape(arguments, "channels", "input_h", "input_w")
        attrs: Attrs = {
            "kernel_size": arguments.integers("kernel_size"),
            "stride": arguments.integers("stride"),
            "padding": _both_sides(arguments.integers("padding")),
            "ceil_mode": arguments.flag("ceil_mode"),
        }
        if operator == "max_pool2d":
            attrs["dilation"] = arguments.integers("dilation", [1, 1])
        else:
            attrs["count_include_pad"] = arguments.flag("count_include_pad", True)
            divisor = arguments.take("divisor_override")
            attrs |= {} if divisor is None else {"divisor_override": divisor}
        return Draft(operator, [shape], [x], attrs)

    return draft


def convolved(operator: str, transposed: bool = False) -> Callable[[Arguments], Draft]:
    """Map, weight and bias by the numbers of the call: the tensors may be prepared for the device already."""

    def draft(arguments: Arguments) -> Draft:
        x, weight, *bias = _tensors(arguments, ["input_tensor", "weight_tensor"], ["bias_tensor"])
        for name in _IGNORED:
            arguments.take(name)
        shape = _map_shape(arguments, "in_channels", "input_height", "input_width")
        groups, out = arguments.integer("groups", 1), arguments.integer("out_channels")
        if groups < 1:
            raise InvalidCase(f"{groups} groups")
        kernel = arguments.integers("kernel_size")
        kernel = kernel * 2 if len(kernel) == 1 else kernel
        wide = (shape[1], out // groups, *kernel) if transposed else (out, shape[1] // groups, *kernel)
        attrs: Attrs = {
            "stride": arguments.integers("stride", [1, 1]),
            "padding": _both_sides(arguments.integers("padding", [0, 0])),
            "dilation": arguments.integers("dilation", [1, 1]),
            "groups": groups,
        }
        if transposed:
            attrs["output_padding"] = arguments.integers("output_padding", [0, 0])
            if not arguments.flag("mirror_kernel", True):
                raise InvalidCase("mirror_kernel is false; a case mirrors it")
        known = [weight if weight.shape == wide else None, *(one if weight.shape == wide else None for one in bias)]
        return Draft(operator, [shape, wide, *((out,) for _ in bias)], [x, *known], attrs)

    return draft


def upsample(arguments: Arguments) -> Draft:
    (x,) = _tensors(arguments, ["input_tensor"])
    factors = arguments.take("scale_factor", REQUIRED)
    factors = [factors] * 2 if isinstance(factors, (int, float)) else factors
    mode = arguments.word("mode", "nearest")
    if mode not in ("nearest", "bilinear") or not isinstance(factors, list):
        raise InvalidCase(f"scale_factor {factors} and mode {mode}; expected two factors, and nearest or bilinear")
    return Draft(f"upsample_{mode}2d", [to_nchw(x.shape)], [x], {"scale_factors": [float(factor) for factor in factors]})
