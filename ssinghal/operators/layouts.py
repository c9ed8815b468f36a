"""Operators that change the layout of a tensor: tiles or rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import BufferType, Cores, DType, Layout, MemoryConfig, Shape, ShardKind, ShardSpec, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory, is_unchanged
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.dims import cut_rows
from ssinghal.operators.operator_info import Attr, Attrs, Call, DTypes, OperatorInfo, Sample, Traits, operand_spec

EVERY_DIM = DimRule(cut=cut_rows)
DTYPE = Attr("str|none", None)  # of the result, where the change of layout is also a cast


def _layout_attr(attrs: Attrs) -> Layout:
    try:
        return Layout(attrs["layout"])
    except ValueError:
        raise InvalidCase(f"layout {attrs['layout']!r} is neither tile nor row_major") from None


def _to_layout(c: Call, layout: Layout) -> Any:
    wanted = c.ttnn.TILE_LAYOUT if layout is Layout.TILE else c.ttnn.ROW_MAJOR_LAYOUT
    cast = {} if c.attrs["dtype"] is None else {"dtype": getattr(c.ttnn, _dtype_attr(c.attrs).value)}
    return in_requested_memory(c, c.ttnn.to_layout(c.inputs[0], wanted, **cast, **c.out))


def _dtype_attr(attrs: Attrs) -> DType:
    return dtype_named(attrs["dtype"])


def _laid_out_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    return (None if attrs["dtype"] is None else _dtype_attr(attrs),)


def _row_shards(case: Case, shape: Shape, attrs: Attrs) -> TensorSpec:
    """Places a row-major operand in DRAM whose rows are cut over ``shards`` banks; with 1 it is interleaved like any other."""
    plain = operand_spec(case, shape, layout=Layout.ROW_MAJOR)
    count = attrs["shards"]
    if count == 1:
        return plain
    height, width = plain.padded_2d
    if count < 1 or width % count or plain.memory.buffer is not BufferType.DRAM:
        raise InvalidCase(f"tilize: shards {count}: expected a divisor of the width, {width}, of an operand in DRAM")
    shard = ShardSpec(ShardKind.WIDTH, (height, width // count), Cores.grid(count, 1))
    return replace(plain, memory=MemoryConfig(BufferType.DRAM, shard))


def _tilize(c: Call) -> Any:
    """Calls the operation below ``to_layout``, which takes shards of any size; ``to_layout`` takes those of whole tiles."""
    if c.attrs["shards"] == 1:
        return _to_layout(c, Layout.TILE)
    padded = TensorSpec(tuple(c.inputs[0].shape)).padded_shape
    cast = {} if c.attrs["dtype"] is None else {"dtype": getattr(c.ttnn, _dtype_attr(c.attrs).value)}
    return c.ttnn.tilize_with_val_padding(c.inputs[0], list(padded), 0.0, **cast, **c.out)


def _one_way(name: str, source: Layout, target: Layout) -> OperatorInfo:
    """Declares ``to_layout`` in one direction, whatever layout the placement names."""

    def place(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
        return [operand_spec(case, shape, layout=source) for shape in shapes]

    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=("self",),
        ttnn="ttnn.to_layout",
        call=lambda c: _to_layout(c, target),
        torch=_same_values,
        attrs={"dtype": DTYPE},
        place=place,
        sample=lambda shape: Sample((shape,), {}),
        dims=EVERY_DIM,
        traits=Traits(output_layout=target, output_dtypes=_laid_out_dtypes),
    )


def _same_values(t: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    return tensors[0].clone()


LAYOUTS = (
    OperatorInfo(
        names=("to_layout",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.to_layout",
        call=lambda c: _to_layout(c, _layout_attr(c.attrs)),
        torch=_same_values,
        attrs={"layout": Attr("str"), "dtype": DTYPE},
        sample=lambda shape: Sample((shape,), {"layout": "row_major"}),
        dims=EVERY_DIM,
        traits=Traits(
            alias=is_unchanged,
            result_form=lambda shape, attrs: (shape, _layout_attr(attrs)),
            output_dtypes=_laid_out_dtypes,
        ),
    ),
    replace(
        _one_way("tilize", Layout.ROW_MAJOR, Layout.TILE),
        call=_tilize,
        attrs={"dtype": DTYPE, "shards": Attr("int", 1)},
        place=lambda case, shapes, attrs: [_row_shards(case, shape, attrs) for shape in shapes],
    ),
    _one_way("untilize", Layout.TILE, Layout.ROW_MAJOR),
)
