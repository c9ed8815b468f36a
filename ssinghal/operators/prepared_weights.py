"""Computes the weight and bias of a convolution as TTNN prepares them, which is not the form of the parameters.

Formula: the weight becomes a matrix in tiles with a row for each kernel position and input channel, dense over its groups, and
a column for each output channel. [C, 1, 3, 3] of a depthwise convolution turns into 9C rows of C. The bias becomes one row.
``tests/operators/test_prepared_weights.py`` checks shapes and dtypes against what ``ttnn.conv2d``, ``conv1d`` and
``conv_transpose2d`` return. Where cores share the input channels, TTNN pads the rows of each core's share further; which
cores do is its choice for a map and a board, so that padding (3 % over the convolutions of the catalogs) is not counted here.
"""

from __future__ import annotations

import math

from ssinghal.core.tensors import TILE_EDGE, Shape, TensorSpec, round_up
from ssinghal.operators import named
from ssinghal.operators.binding import BoundCall
from ssinghal.operators.operator_info import weights_dtype

CONVOLUTIONS = frozenset(named("convolution conv_transpose2d"))
VOLUME = 5  # rank


def prepared_weights(call: BoundCall) -> dict[int, TensorSpec]:
    """Returns the specs of a convolution's weight and bias as prepared, by the position of the operand; empty for other calls.

    All are in DRAM. A convolution over volumes, [N, C, D, H, W], has both kinds of channels in complete tiles, and takes no
    dtype but that of the call.
    """
    if call.info.name not in CONVOLUTIONS:
        return {}
    weight, groups, transposed = call.shapes[1], call.attrs["groups"], call.attrs["transposed"]
    channels, outputs = (weight[0], weight[1] * groups) if transposed else (weight[1] * groups, weight[0])
    dtype = weights_dtype(call.case.placement.dtype, call.attrs)
    positions = math.prod(weight[2:])
    if len(weight) == VOLUME:
        columns = round_up(outputs, TILE_EDGE)
        specs = [TensorSpec((positions * round_up(channels, TILE_EDGE), columns), dtype), TensorSpec((1, columns), dtype)]
    else:
        specs = [TensorSpec(shape, dtype) for shape in _matrices(positions * channels, outputs)]
    return dict(zip(range(1, len(call.shapes)), specs, strict=False))


def _matrices(rows: int, columns: int) -> tuple[Shape, Shape]:
    return (1, 1, rows, columns), (1, 1, 1, columns)
