"""Derives arguments that a recording lacks from the shapes of operands and results, where those leave one choice alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from ssinghal.catalog.recorded.calls import RecordedCall, RecordedTensor
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase

Tensors = Sequence[RecordedTensor]
Values = dict[str, Any]
_MOST_DIMS = 6


def derived(call: RecordedCall, parameters: Sequence[str]) -> RecordedCall:
    """Returns a call of which only tensors are recorded with what these determine of its arguments.

    Raises:
        InvalidCase: They leave more than one choice, or none; the text states which argument is not recorded.
    """
    rule = _RULES.get(call.function)
    operands = tuple(call.tensors())
    if rule is not None:
        if not operands or not call.results:
            raise InvalidCase("its tensors are not recorded")
        return replace(call, args=[], kwargs=rule(operands, call.results))
    if call.function in _UNKNOWN:
        raise InvalidCase(f"{_UNKNOWN[call.function]} is not recorded, and the shapes do not determine it")
    return replace(call, args=list(operands)) if operands else call


def _one(found: Sequence[Any], what: str) -> Any:
    if len(found) != 1:
        raise InvalidCase(f"{what} is not recorded, and the shapes fit {len(found):,} of them")
    return found[0]


def _reshaped(operands: Tensors, results: Tensors) -> Values:
    return {"input_tensor": operands[0], "shape": list(results[0].shape)}


def _permuted(operands: Tensors, results: Tensors) -> Values:
    shape = operands[0].shape
    if len(shape) > _MOST_DIMS:
        raise InvalidCase(f"dims is not recorded, and {format_shape(shape)} has too many of them")
    fits = [dims for dims in permutations(range(len(shape))) if tuple(shape[d] for d in dims) == results[0].shape]
    return {"input_tensor": operands[0], "dims": list(_one(fits, "dims"))}


def _transposed(operands: Tensors, results: Tensors) -> Values:
    shape, rank = operands[0].shape, len(operands[0].shape)
    pairs = [(a, b) for b in range(rank) for a in range(b)]
    fits = [(a, b) for a, b in pairs if _swapped(shape, a, b) == results[0].shape]
    first, second = _one(fits, "the pair of dims")
    return {"input_tensor": operands[0], "dim1": first, "dim2": second}


def _swapped(shape: Shape, a: int, b: int) -> Shape:
    sizes = list(shape)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    return tuple(sizes)


def _joined(operands: Tensors, results: Tensors) -> Values:
    first, result = operands[0].shape, results[0].shape
    fits = [
        dim
        for dim in range(len(first))
        if all(len(one.shape) == len(first) for one in operands)
        and result == (*first[:dim], sum(one.shape[dim] for one in operands), *first[dim + 1 :])
    ]
    return {"tensors": list(operands), "dim": _one(fits, "dim")}


def _laid_out(operands: Tensors, results: Tensors) -> Values:
    values: Values = {"tensor": operands[0], "layout": results[0].layout.value}
    return values if results[0].dtype is operands[0].dtype else {**values, "dtype": results[0].dtype.value}


def _multiplied(names: Sequence[str]) -> Callable[[Tensors, Tensors], Values]:
    def rule(operands: Tensors, results: Tensors) -> Values:
        a, b = operands[0].shape, operands[1].shape
        if len(a) < 2 or len(b) < 2 or a[-1] != b[-2] or results[0].shape[-2:] != (a[-2], b[-1]):
            raise InvalidCase("an operand is transposed within the call, which is not recorded")
        return dict(zip(names, operands, strict=False))

    return rule


def _normalized(operands: Tensors, results: Tensors) -> Values:
    return dict(zip(("input_tensor", "weight", "bias"), operands, strict=False))


def _repeated(operands: Tensors, results: Tensors) -> Values:
    shape, result = operands[0].shape, results[0].shape
    if len(shape) != len(result) or any(b % a for a, b in zip(shape, result, strict=True)):
        raise InvalidCase("repeat_dims is not recorded, and the result is no multiple of the operand")
    return {"input_tensor": operands[0], "repeat_dims": [b // a for a, b in zip(shape, result, strict=True)]}


def _unpadded(operands: Tensors, results: Tensors) -> Values:
    return {"input_tensor": operands[0], "output_tensor_end": [size - 1 for size in results[0].shape]}


def _squeezed(operands: Tensors, results: Tensors) -> Values:
    shape = operands[0].shape
    fits = [dim for dim, size in enumerate(shape) if size == 1 and shape[:dim] + shape[dim + 1 :] == results[0].shape]
    return {"input_tensor": operands[0], "dim": _one(fits, "dim")}


def _parted(operands: Tensors, results: Tensors) -> Values:
    shape, parts = operands[0].shape, [one.shape for one in results]
    fits = [
        dim
        for dim in range(len(shape))
        if all(one == (*shape[:dim], one[dim], *shape[dim + 1 :]) for one in parts if len(one) == len(shape))
        and sum(one[dim] for one in parts if len(one) == len(shape)) == shape[dim]
    ]
    dim = _one(fits, "dim")
    return {"input_tensor": operands[0], "split_size": [one[dim] for one in parts], "dim": dim}


def _headed(operands: Tensors, results: Tensors) -> Values:
    """Heads are those of the results: [batch, heads, rows, size], of keys with the last two swapped where they differ."""
    if len(operands) != 1 or len(results) != 3 or any(len(one.shape) != 4 for one in results):
        raise InvalidCase("num_heads is not recorded, and the results are not those of queries, keys and values")
    query, key, value = (one.shape for one in results)
    if key[2] == key[3]:
        raise InvalidCase("transpose_key is not recorded, and keys are square")
    return {
        "input_tensor": operands[0],
        "num_heads": query[1],
        "num_kv_heads": key[1],
        "transpose_key": key[2:] != value[2:],
    }


def _convolved(operands: Tensors, results: Tensors) -> Values:
    """Kernel and channels are those of a weight as torch has it. Of a flat map only the product of batch, height and width is
    known: enough where the kernel is 1 x 1 and keeps all pixels, which is a product of matrices."""
    x, weight, *bias = operands
    if len(weight.shape) != 4 or weight.memory is not None or len(x.shape) != 4:
        raise InvalidCase("kernel_size is not recorded, and the weight is prepared already")
    out, per_group, *kernel = weight.shape
    channels = x.shape[3]
    if channels % per_group:
        raise InvalidCase(f"{channels} channels are no multiple of the weight's {per_group}")
    pixels, kept = math.prod(x.shape[:3]), math.prod(results[0].shape[:3])
    values: Values = {
        "input_tensor": x,
        "weight_tensor": weight,
        **({"bias_tensor": bias[0]} if bias else {}),
        "in_channels": channels,
        "out_channels": out,
        "groups": channels // per_group,
        "kernel_size": kernel,
    }
    if kernel == [1, 1] and pixels == kept:
        sizes = x.shape[:3] if x.shape[1] > 1 else (1, 1, pixels)
        return {**values, **_map(sizes), "stride": [1, 1], "padding": [0, 0]}
    if x.shape[1] == 1:
        raise InvalidCase("batch_size, input_height and input_width are not recorded, and the map is flat")
    batch, height, width = x.shape[:3]
    fits = [
        (stride, padding)
        for stride in range(1, max(height, width) + 1)
        for padding in range(max(kernel))
        if batch * _extent(height, kernel[0], stride, padding) * _extent(width, kernel[1], stride, padding) == kept
    ]
    stride, padding = _one(fits, "stride and padding")
    return {**values, **_map((batch, height, width)), "stride": [stride] * 2, "padding": [padding] * 2}


def _map(sizes: Sequence[int]) -> Values:
    return dict(zip(("batch_size", "input_height", "input_width"), sizes, strict=True))


def _extent(size: int, kernel: int, stride: int, padding: int) -> int:
    return max(0, (size + 2 * padding - kernel) // stride + 1)


_RULES: Mapping[str, Callable[[Tensors, Tensors], Values]] = {
    "ttnn.reshape": _reshaped,
    "ttnn.Tensor.reshape": _reshaped,
    "ttnn.permute": _permuted,
    "ttnn.transpose": _transposed,
    "ttnn.concat": _joined,
    "ttnn.to_layout": _laid_out,
    "ttnn.matmul": _multiplied(("input_tensor_a", "input_tensor_b")),
    "ttnn.linear": _multiplied(("input_tensor_a", "input_tensor_b", "bias")),
    "ttnn.layer_norm": _normalized,
    "ttnn.rms_norm": _normalized,
    "ttnn.repeat": _repeated,
    "ttnn.untilize_with_unpadding": _unpadded,
    "ttnn.squeeze": _squeezed,
    "ttnn.split": _parted,
    "ttnn.transformer.split_query_key_value_and_split_heads": _headed,
    "ttnn.conv2d": _convolved,
}
_UNKNOWN: Mapping[str, str] = {
    "ttnn.softmax": "dim",
    "ttnn.slice": "the start of the slice",
    "ttnn.Tensor.__getitem__": "the start of the slice",
    "ttnn.pad": "the side of the padding",
    "ttnn.max_pool2d": "kernel_size",
    "ttnn.avg_pool2d": "kernel_size",
    "ttnn.conv_transpose2d": "stride",
    "ttnn.upsample": "mode",
    "ttnn.mean": "dim",
    "ttnn.sum": "dim",
    "ttnn.max": "dim",
    "ttnn.min": "dim",
}
