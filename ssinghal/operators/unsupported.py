"""ATen operators that deliberately have no operator here, with the reason. Any other is simply not declared yet.

A name without an overload stands for all of them.
"""

from __future__ import annotations

_SAME_TENSOR = "another name for the same tensor: TTNN runs nothing"
_READ_BACK = "the host reads a value back: no TTNN operator runs"
_BOOKKEEPING = "torch's own bookkeeping of storage: TTNN has nothing of that kind"
_NO_VALUES = "memory without values: the operators that fill it are cases of their own"
_SIZE_BY_VALUES = "the size of the result depends on values: no shape to test"
_HOST_CONSTANT = "a constant that the host makes once"
_SCALAR = "the result has rank 0, which is no shape of a case"
_COMPOSITE = "a composition that the aten level lists call by call"

UNMAPPED = {
    "alias": _SAME_TENSOR,
    "detach": _SAME_TENSOR,
    "detach_": _SAME_TENSOR,
    "lift_fresh": _SAME_TENSOR,
    "_local_scalar_dense": _READ_BACK,
    "item": _READ_BACK,
    "is_nonzero": _READ_BACK,
    "equal": _READ_BACK,
    "as_strided_": _BOOKKEEPING,
    "resize_": _BOOKKEEPING,
    "set_": _BOOKKEEPING,
    "empty": _NO_VALUES,
    "empty_like": _NO_VALUES,
    "empty_strided": _NO_VALUES,
    "new_empty": _NO_VALUES,
    "new_empty_strided": _NO_VALUES,
    "nonzero": _SIZE_BY_VALUES,
    "masked_select": _SIZE_BY_VALUES,
    "unique_consecutive": _SIZE_BY_VALUES,
    "_unique2": _SIZE_BY_VALUES,
    **{f"{name}.default": _SCALAR for name in ("max", "mean", "min", "prod", "sum")},
    "meshgrid": _HOST_CONSTANT,
    "linspace": _HOST_CONSTANT,
    "tril_indices": _HOST_CONSTANT,
    "einsum": _COMPOSITE,
    "all": "TTNN has no such reduction; ttnn.min of a mask of 0 and 1 is another call",
    "any": "TTNN has no such reduction; ttnn.max of a mask of 0 and 1 is another call",
    "flip": "TTNN reverses no dim",
    "upsample_bicubic2d": "ttnn.upsample knows nearest and bilinear only",
    "upsample_trilinear3d": "ttnn.upsample knows maps of two dims only",
    "im2col": "TTNN has no such function: its convolutions gather their windows themselves",
    "col2im": "TTNN has no such function",
    "avg_pool1d": "TTNN pools maps of two dims only",
    "max_pool1d": "TTNN pools maps of two dims only",
    "max_pool3d": "TTNN pools maps of two dims only",
    "max_pool3d_with_indices": "TTNN pools maps of two dims only",
    "avg_pool3d": "TTNN pools maps of two dims only",
    "adaptive_avg_pool3d": "TTNN pools maps of two dims only",
    "_adaptive_avg_pool3d": "TTNN pools maps of two dims only",
    "index_put": "TTNN writes to no list of positions",
    "index_put_": "TTNN writes to no list of positions",
    "nms": "torchvision's own kernel, whose result depends on values",
    "roi_align": "torchvision's own kernel: TTNN has none of that meaning",
    "deform_conv2d": "torchvision's own kernel: TTNN has none of that meaning",
}

# Calls that no device would run, whatever its operators: captures count them but do not list them.
NO_DEVICE_CALL = frozenset(
    name for name, reason in UNMAPPED.items() if reason in (_SAME_TENSOR, _READ_BACK, _BOOKKEEPING, _NO_VALUES)
)

NOT_DECLARED = "no operator declares this overload"


def unmapped_reason(overload: str) -> str:
    """Returns why no operator runs this overload.

    >>> unmapped_reason("aten.item.default")
    'the host reads a value back: no TTNN operator runs'
    """
    _, _, name = overload.partition(".")
    return UNMAPPED.get(name) or UNMAPPED.get(name.partition(".")[0]) or NOT_DECLARED


NOT_OPERATORS = {
    "Tensor": "an ATen overload name (add.Tensor), or the class",
    "TensorScalar": "an ATen overload name (pow.Tensor_Scalar)",
    "Scalar": "an ATen overload name (add.Scalar)",
    "int": "an ATen overload name (transpose.int, softmax.int)",
    "dim": "an ATen overload name (mean.dim)",
    "SwinDropPath": "a module (stochastic depth): the identity in eval mode; its training form is dropout and mul",
    "ContrastiveHead": "a module of yolov8-world: batch norm, einsum, mul and add, each tested under its own name",
}
