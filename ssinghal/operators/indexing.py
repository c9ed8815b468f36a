"""Shape operators that look up elements or rows by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, along
from ssinghal.operators.dims import equal_operands
from ssinghal.operators.operator_info import (
    Attr,
    Attrs,
    Call,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    normal_dim,
    operand_spec,
    to_nhwc,
)
from ssinghal.operators.resizing import not_along


def _gather_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    shape, index = shapes
    dim = normal_dim(attrs["dim"], len(shape))
    if len(shape) != len(index) or any(index[d] > shape[d] for d in range(len(shape)) if d != dim):
        raise InvalidCase(f"index {list(index)} does not lie within {list(shape)} outside dim {dim}")
    return [index]


def _place_gather(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    return [operand_spec(case, shapes[0]), operand_spec(case, shapes[1], dtype=DType.UINT32)]


def _embedding_shape(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    weight, indices = shapes
    if len(weight) != 2:
        raise InvalidCase(f"embedding takes a table of rank 2, not shape {list(weight)}")
    return [(*indices, weight[1])]


def _place_embedding(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places both row-major, else TTNN untilizes the table. Indices of rank above 2 are folded: TTNN drops a dim of them."""
    weight, indices = shapes
    folded = (math.prod(indices[:-1]), indices[-1]) if len(indices) > 2 else indices
    return [
        operand_spec(case, weight, layout=Layout.ROW_MAJOR),
        operand_spec(case, folded, layout=Layout.ROW_MAJOR, dtype=DType.UINT32),
    ]


def _embedding(c: Call) -> Any:
    weight, indices = c.inputs
    layout = c.ttnn.TILE_LAYOUT if c.case.placement.layout is Layout.TILE else c.ttnn.ROW_MAJOR_LAYOUT
    rows = c.ttnn.embedding(indices, weight, layout=layout, **c.out)
    shape = (*c.case.inputs[1], c.case.inputs[0][-1])
    return rows if len(shape) <= 3 else c.ttnn.reshape(rows, shape)


def _embedding_sample(shape: Shape) -> Sample:
    """Builds the sweep's call: the result has the listed shape as placed; the table has 1,024 rows."""
    placed = to_nhwc(shape)
    return Sample(((1024, placed[-1]), placed[:-1] or (1,)), {}, channels_last=False)


def _indices(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """The indices are resized; the table stays."""
    return [(None,) * len(inputs[0]), along(len(inputs[1]))]


def _cut_columns(call: CuttableCall) -> Axes | None:
    """Each index picks a row of the weight, so its columns can be cut. On the device indices and result are folded."""
    weight, indices = call.inputs
    columns: Dims = (None, (0, 1))
    result: Dims = (*(None for _ in range(len(call.results[0]) - 1)), (0, 1))
    return call.axes([result], {0: weight[1]}, written=[columns, (None,) * len(indices)], placed=[columns, ()])


LOOKUPS = (
    OperatorInfo(
        names=("gather",),
        aten=("aten.gather.default",),
        operands=("self", "index"),
        ttnn="ttnn.gather",
        call=lambda c: in_requested_memory(c, c.ttnn.gather(c.inputs[0], c.attrs["dim"], index=c.inputs[1], **c.out)),
        torch=lambda t, x, a: t.gather(x[0], a["dim"], x[1].long()),
        infer=_gather_shape,
        attrs={"dim": Attr("int"), "sparse_grad": Attr("bool|none", None)},
        place=_place_gather,
        sample=lambda shape: Sample((shape, shape), {"dim": -1}),
        dims=DimRule(equal_operands, resize=not_along("operands differ along it")),
        traits=Traits(temporaries=True, indices=(1,)),
        limitations=(
            Limitation("ttnn.gather rejects rank 1 in tile layout", (Layout.TILE,), when=lambda s, attrs: len(s[0]) == 1),
        ),
    ),
    OperatorInfo(
        names=("embedding",),
        aten=("aten.embedding.default",),
        operands=("weight", "indices"),
        ttnn="ttnn.embedding",
        call=_embedding,
        torch=lambda t, x, a: t.nn.functional.embedding(x[1].long(), x[0]),
        infer=_embedding_shape,
        attrs={
            "padding_idx": Attr("int|none", None),
            "scale_grad_by_freq": Attr("bool|none", None),
            "sparse": Attr("bool|none", None),
        },
        place=_place_embedding,
        sample=_embedding_sample,
        dims=DimRule(_indices, subject=1, cut=_cut_columns),
        traits=Traits(temporaries=True, indices=(1,), weights=(0,)),
        limitations=(
            Limitation("ttnn.embedding takes a bfloat16 table only", dtypes=tuple(d for d in DType if d is not DType.BFLOAT16)),
        ),
    ),
)
