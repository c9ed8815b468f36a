"""Selects the rule that makes the calls of a step."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.operators import named
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.along_dims import cat, pad, reduce, roll, rowwise, slices, softmax
from ssinghal.plan.rules.base import Rule, Work, declared_call
from ssinghal.plan.rules.elementwise import broadcast, unary
from ssinghal.plan.rules.matmul import convolution, matmul, resize
from ssinghal.plan.rules.views import dropout, expand, permute, unchanged, view

_OPERATORS: Mapping[Rule, str] = {
    unary: (
        "relu silu silu_ sigmoid tanh mish hardswish gelu softplus leaky_relu hardtanh relu6 hardsigmoid elu exp expm1 erf sin"
        " cos floor ceil round sign log log1p log2 sqrt rsqrt reciprocal neg abs square clamp clamp_min clamp_max rsub pow rpow"
        " logical_not"
    ),
    broadcast: (
        "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill"
        " logical_and logical_or logical_xor"
    ),
    view: "view flatten unflatten unsqueeze squeeze",
    permute: "permute transpose t",
    unchanged: "clone identity",
    slices: "split chunk slice select unbind",
    cat: "cat stack",
    rowwise: "linear native_layer_norm rms_norm",
    reduce: "mean sum amax amin",
    pad: "constant_pad_nd replication_pad2d replication_pad3d",
    matmul: "matmul bmm mm",
    dropout: "dropout",
    expand: "expand",
    roll: "roll",
    softmax: "softmax",
    convolution: "convolution conv_transpose2d",
    resize: "upsample_nearest2d upsample_bilinear2d upsample_nearest3d",
}
RULES: Mapping[str, Rule] = {name: rule for rule, names in _OPERATORS.items() for name in named(names)}


def results_of(work: Work) -> list[HeldTensor]:
    """Runs the call. Errors are TTNN's own; ``work.ops.doing`` is what was under way."""
    work.ops.in_tiles = work.dtype
    return RULES.get(work.planned.operator, declared_call)(work)
