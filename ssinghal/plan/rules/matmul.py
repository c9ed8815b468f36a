"""Makes calls of matrix products, attention heads and convolutions."""

from __future__ import annotations

import math

from ssinghal.core.tensors import TILE_EDGE, Layout, round_up
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.convolutions import VOLUME, map_convolution, spatial
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.rules.base import Work, channels_last, declared_call
from ssinghal.plan.rules.views import unchanged


def matmul(work: Work) -> list[HeldTensor]:
    """Multiplies batches of matrices. With ``transposed_matmul``, matrices that are transposed on the device stay so."""
    ops, shape = work.ops, work.shapes[0]
    a, b = work.operand(0), work.operand(1)
    if min(len(a.axes.dims), len(b.axes.dims)) < 2 or a.axes.shape[:-2] != b.axes.shape[:-2]:
        return declared_call(work)
    flags = {}
    for position, (x, flag) in enumerate(((a, "transpose_a"), (b, "transpose_b"))):
        rank = len(x.axes.dims)
        straight = list(range(rank))
        swapped = [*straight[:-2], rank - 1, rank - 2]
        order = straight
        if ops.policy.transposed_matmul and not x.axes.has_order(straight) and x.axes.has_order(swapped):
            flags[flag], order = True, swapped
        sizes = [x.axes.shape[d] for d in order]
        batch = sizes[:-2] if rank <= 4 else [math.prod(sizes[:-3]), sizes[-3]]
        if not work.is_resident(position):
            work.as_float(x)
        ops.arrange(x, order, (*[1] * (2 - len(batch)), *batch, *sizes[-2:]), Layout.TILE)
    left, right = work.ready(0, a), work.ready(1, b)
    ops.doing = f"matmul {list(a.shape)} with {list(b.shape)} {' '.join(flags)}".rstrip()
    arguments = {**flags, **ops.settings("matmul"), **work.result_dtype, **ops.placed}
    return [HeldTensor(ops.ttnn.matmul(left, right, **arguments), AxisLayout.plain(shape))]


def convolution(work: Work) -> list[HeldTensor]:
    """Calls TTNN's convolution with prepared weights, where it has such."""
    if not work.residents.is_prepared(work.planned):
        return declared_call(work)
    return _conv3d(work) if len(work.case.inputs[0]) == VOLUME else _over_map(work)


def _over_map(work: Work) -> list[HeldTensor]:
    ops, x, step = work.ops, work.operand(0), work.planned
    convolution = map_convolution(step)
    error = work.residents.preparation_error(step)
    if error is not None:
        ops.doing = f"ttnn.{convolution.function}" if convolution.is_transposed else "ttnn.prepare_conv_weights"
        raise error
    order = channels_last(len(work.case.inputs[0]))
    ops.arrange(x, order, (1, 1, convolution.rows, work.case.inputs[0][1]), _map_layout(work, x, convolution.layout))
    image = work.ready(0, x)
    ops.doing = f"ttnn.{convolution.function}"
    result = getattr(ops.ttnn, convolution.function)(
        input_tensor=image,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=work.residents.tensor(step, 2) if work.count > 2 else None,
        device=ops.session.device,
        **work.residents.conv_settings(step, frees_input=work.dies_alone(0), ttnn=ops.ttnn),
        **convolution.call,
        **ops.placed,
    )
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def _map_layout(work: Work, x: HeldTensor, layout: Layout) -> Layout:
    """Returns the layout in which a convolution takes its map. Shards that it takes as they are may be rows, as pools leave
    them: TTNN tilizes what it gathers from them."""
    memory, ops = work.ops.choice.move_of(0), work.ops
    in_place = memory is not None and memory.shard is not None and ops.memory(x) == memory
    return ops.layout(x) if in_place and ops.layout(x) is Layout.ROW_MAJOR else layout


def _conv3d(work: Work) -> list[HeldTensor]:
    """Calls conv3d on rows of [N, D, H, W, C] with channels in complete tiles, and so is its result.

    TTNN would pad fewer channels itself, but ignores that when the result is reshaped. The weight is dense over its groups, so
    the call has one group.
    """
    ops, x, step = work.ops, work.operand(0), work.planned
    order = (0, 2, 3, 4, 1)
    n, c, *volume = work.case.inputs[0]
    ops.arrange(x, order, (n, *volume, c), Layout.ROW_MAJOR)
    tensor = x.tensor
    if c % TILE_EDGE:
        ops.doing = "pad of the channels"
        tensor = ops.ttnn.pad(tensor, [(0, 0)] * 4 + [(0, -c % TILE_EDGE)], 0.0)
    out, *kernel = work.case.inputs[1][0], *work.case.inputs[1][2:]
    ops.doing = "ttnn.experimental.conv3d"
    result = ops.ttnn.experimental.conv3d(
        input_tensor=tensor,
        weight_tensor=work.residents.tensor(step, 1),
        bias_tensor=work.residents.tensor(step, 2) if work.count > 2 else None,
        device=ops.session.device,
        output_channels=round_up(out, TILE_EDGE),
        kernel_size=kernel,
        groups=1,
        dtype=tensor.dtype,
        **{name: list(spatial(step, name, 3)) for name in ("stride", "padding", "dilation")},
        **{name: step.extras[name] for name in ("padding_mode",) if name in step.extras},
        **ops.placed,
    )
    if out % TILE_EDGE:
        ops.doing = "slice of the channels"
        ends = [*tuple(result.shape)[:-1], out]
        result = ops.ttnn.slice(result, [0] * len(ends), ends, [1] * len(ends), **ops.placed)
    return [HeldTensor(result, AxisLayout.plain(work.shapes[0], order))]


def resize(work: Work) -> list[HeldTensor]:
    """Resizes a map, unless it has that size already."""
    return unchanged(work) if work.shapes[0] == work.case.inputs[0] else declared_call(work)


def split_heads(work: Work) -> list[HeldTensor]:
    """Splits [B, N, 3 H d] into three of [B, H, N, d]."""
    ops, x = work.ops, work.operand(0)
    ops.to_torch_order(x)
    ops.doing = "ttnn.transformer.split_query_key_value_and_split_heads"
    split = ops.ttnn.transformer.split_query_key_value_and_split_heads
    parts = split(work.ready(0, x), num_heads=work.planned.extras["heads"], transpose_key=False, **ops.placed)
    return [HeldTensor(tensor, AxisLayout.plain(shape)) for tensor, shape in zip(parts, work.shapes, strict=True)]
