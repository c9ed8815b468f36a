"""Which rule makes the calls of a step: operands laid out as TTNN takes them, results as they come."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.along_dims import cat, cut, pad, reduce, roll, rowwise, softmax
from ssinghal.plan.rules.base import Rule, Work, registry
from ssinghal.plan.rules.elementwise import broadcast, unary
from ssinghal.plan.rules.matmul import convolution, matmul, resize
from ssinghal.plan.rules.views import dropout, expand, permute, same, view

_UNARY = (
    "relu silu silu_ sigmoid tanh mish hardswish gelu softplus leaky_relu hardtanh relu6 hardsigmoid elu exp expm1 erf sin cos"
    " floor ceil round sign log log1p log2 sqrt rsqrt reciprocal neg abs square clamp clamp_min clamp_max rsub pow rpow"
    " logical_not"
)
_BROADCAST = (
    "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill"
    " logical_and logical_or logical_xor"
)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_UNARY.split(), unary),
    **dict.fromkeys(_BROADCAST.split(), broadcast),
    **dict.fromkeys("view flatten unflatten unsqueeze squeeze".split(), view),
    **dict.fromkeys("permute transpose t".split(), permute),
    **dict.fromkeys("clone identity".split(), same),
    **dict.fromkeys("split chunk slice select unbind".split(), cut),
    **dict.fromkeys("cat stack".split(), cat),
    **dict.fromkeys("linear native_layer_norm rms_norm".split(), rowwise),
    **dict.fromkeys("mean sum amax amin".split(), reduce),
    **dict.fromkeys("constant_pad_nd replication_pad2d replication_pad3d".split(), pad),
    **dict.fromkeys("matmul bmm mm".split(), matmul),
    "dropout": dropout,
    "expand": expand,
    "roll": roll,
    "softmax": softmax,
    "convolution": convolution,
    **dict.fromkeys("upsample_nearest2d upsample_bilinear2d upsample_nearest3d".split(), resize),
}


def results_of(work: Work) -> list[HeldTensor]:
    """Runs the step. Errors are TTNN's own; ``work.hand.doing`` says what was under way."""
    return RULES.get(work.planned.operator, registry)(work)
