"""Matrix products, attention heads, convolutions."""

from __future__ import annotations

import math

from ssinghal.core.tensors import TILE_EDGE, Layout, round_up
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.base import Work, channels_last, registry
from ssinghal.plan.rules.views import same
from ssinghal.plan.weights import MAP, VOLUME, conv_arguments, map_layout, spatial


def matmul(work: Work) -> list[HeldTensor]:
    """Batches before matrices. With ``transposed_matmul`` an operand whose matrices lie transposed stays so."""
    hand, shape = work.hand, work.shapes[0]
    a, b = work.operand(0), work.operand(1)
    if min(len(a.form.dims), len(b.form.dims)) < 2 or a.form.shape[:-2] != b.form.shape[:-2]:
        return registry(work)
    flags = {}
    for x, flag in ((a, "transpose_a"), (b, "transpose_b")):
        rank = len(x.form.dims)
        straight = list(range(rank))
        swapped = [*straight[:-2], rank - 1, rank - 2]
        order = straight
        if hand.policy.transposed_matmul and not x.form.lies(straight) and x.form.lies(swapped):
            flags[flag], order = True, swapped
        sizes = [x.form.shape[d] for d in order]
        batch = sizes[:-2] if rank <= 4 else [math.prod(sizes[:-3]), sizes[-3]]
        hand.cast(x, work.case.placement.dtype)
        hand.arrange(x, order, (*[1] * (2 - len(batch)), *batch, *sizes[-2:]), Layout.TILE)
    hand.doing = f"matmul {list(a.shape)} with {list(b.shape)} {' '.join(flags)}".rstrip()
    return [HeldTensor(hand.ttnn.matmul(a.tensor, b.tensor, **flags, **hand.in_dram), AxisLayout.plain(shape))]


def convolution(work: Work) -> list[HeldTensor]:
    if not work.residents.prepares(work.planned):
        return registry(work)
    return _conv3d(work) if len(work.case.inputs[0]) == VOLUME else _conv2d(work)


def _conv2d(work: Work) -> list[HeldTensor]:
    hand, x, step = work.hand, work.operand(0), work.planned
    refusal = work.residents.refusal(step)
    if refusal is not None:
        hand.doing = "ttnn.prepare_conv_weights"
        raise refusal
    n, c, h, w = work.case.inputs[0]
    order = channels_last(MAP)
    hand.arrange(x, order, (1, 1, n * h * w, c), map_layout(c))
    bias = work.residents.tensor(step, 2) if work.count > 2 else None
    hand.doing = "ttnn.conv2d"
    result = hand.ttnn.conv2d(
        input_tensor=x.tensor,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=bias,
        device=hand.session.device,
        **conv_arguments(step),
        **hand.in_dram,
    )
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def _conv3d(work: Work) -> list[HeldTensor]:
    """On [N, D, H, W, C] in rows, whole tiles of channels, and to such: what TTNN adds to fewer by itself it does not count
    when the result gets another shape. The weight is dense over its groups, so that the call has one."""
    hand, x, step = work.hand, work.operand(0), work.planned
    order = (0, 2, 3, 4, 1)
    n, c, *volume = work.case.inputs[0]
    hand.arrange(x, order, (n, *volume, c), Layout.ROW_MAJOR)
    tensor = x.tensor
    if c % TILE_EDGE:
        hand.doing = "pad of the channels"
        tensor = hand.ttnn.pad(tensor, [(0, 0)] * 4 + [(0, -c % TILE_EDGE)], 0.0)
    out, *kernel = work.case.inputs[1][0], *work.case.inputs[1][2:]
    hand.doing = "ttnn.experimental.conv3d"
    result = hand.ttnn.experimental.conv3d(
        input_tensor=tensor,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=work.residents.tensor(step, 2) if work.count > 2 else None,
        device=hand.session.device,
        output_channels=round_up(out, TILE_EDGE),
        kernel_size=kernel,
        groups=1,
        dtype=tensor.dtype,
        **{name: list(spatial(step, name, 3)) for name in ("stride", "padding", "dilation")},
        **{name: step.extras[name] for name in ("padding_mode",) if name in step.extras},
        **hand.in_dram,
    )
    if out % TILE_EDGE:
        hand.doing = "slice of the channels"
        ends = [*tuple(result.shape)[:-1], out]
        result = hand.ttnn.slice(result, [0] * len(ends), ends, [1] * len(ends), **hand.in_dram)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def resize(work: Work) -> list[HeldTensor]:
    """To the size that the map has already: nothing to do."""
    return same(work) if work.shapes[0] == work.case.inputs[0] else registry(work)


def split_heads(work: Work) -> list[HeldTensor]:
    """[B, N, 3 H d] to three of [B, H, N, d]."""
    hand, x = work.hand, work.operand(0)
    hand.plain(x)
    hand.doing = "ttnn.transformer.split_query_key_value_and_split_heads"
    split = hand.ttnn.transformer.split_query_key_value_and_split_heads
    parts = split(x.tensor, num_heads=work.planned.extras["heads"], transpose_key=False, **hand.in_dram)
    return [HeldTensor(tensor, AxisLayout.plain(shape)) for tensor, shape in zip(parts, work.shapes, strict=True)]
