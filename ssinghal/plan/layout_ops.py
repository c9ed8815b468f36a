"""What a plan does with tensors on a device: lay them out as a call wants them, with the calls that a port would make.

Nothing here frees: a tensor goes when its last Python reference does, as TTNN counts them. ``doing`` says what was under way
when TTNN refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, round_up
from ssinghal.device.session import Session
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.policy import PortingPolicy


@dataclass
class HeldTensor:
    """A value on the device. Two that are views of each other hold the same tensor."""

    tensor: Any
    form: AxisLayout

    @property
    def shape(self) -> Shape:
        """Of the device tensor, which holds the atoms of the form in their order, grouped in whatever way."""
        return tuple(self.tensor.shape)


class LayoutOps:
    def __init__(self, session: Session, policy: PortingPolicy) -> None:
        self.session, self.policy, self.ttnn = session, policy, session.ttnn
        self.doing = ""

    # Facts --------------------------------------------------------------------------------------------------------------

    def layout(self, held: HeldTensor) -> Layout:
        return Layout.TILE if held.tensor.layout == self.ttnn.TILE_LAYOUT else Layout.ROW_MAJOR

    def dtype(self, held: HeldTensor) -> DType:
        return DType(held.tensor.dtype.name.lower())

    def bytes_as(self, shape: Shape, dtype: DType, layout: Layout) -> int:
        """Of a tensor in DRAM, over all banks."""
        return TensorSpec(shape, dtype, layout).allocated_bytes(self.session.board)

    @property
    def in_dram(self) -> dict[str, Any]:
        return {"memory_config": self.ttnn.DRAM_MEMORY_CONFIG}

    # Layout -------------------------------------------------------------------------------------------------------------

    def to_layout(self, held: HeldTensor, layout: Layout) -> None:
        if self.layout(held) is layout:
            return
        self.doing = f"to_layout {list(held.shape)} to {layout.value}"
        wanted = self.ttnn.TILE_LAYOUT if layout is Layout.TILE else self.ttnn.ROW_MAJOR_LAYOUT
        held.tensor = self.ttnn.to_layout(held.tensor, wanted, **self.in_dram)

    def cast(self, held: HeldTensor, dtype: DType) -> None:
        if self.dtype(held) is dtype:
            return
        self.to_layout(held, Layout.TILE)
        self.doing = f"typecast {list(held.shape)} to {dtype.value}"
        held.tensor = self.ttnn.typecast(held.tensor, getattr(self.ttnn, dtype.value), **self.in_dram)

    def reshape(self, held: HeldTensor, shape: Shape) -> None:
        """Another grouping of the same rows. Tiles are kept where their grid stays; else the tensor goes by row-major layout,
        since TTNN's reshape of tiles lists every page on the host."""
        if held.shape == tuple(shape):
            return
        if self.layout(held) is Layout.TILE and not keeps_tiles(held.shape, shape):
            self.to_layout(held, Layout.ROW_MAJOR)
        self.doing = f"reshape {list(held.shape)} to {list(shape)}"
        held.tensor = self.ttnn.reshape(held.tensor, list(shape))

    def arrange(self, held: HeldTensor, dims: Sequence[int], shape: Shape | None = None, layout: Layout | None = None) -> None:
        """Brings the dims into this order on the device, grouped as ``shape`` and in ``layout`` where they are given."""
        shuffle = held.form.shuffle(dims, held.shape)
        if shuffle is not None:
            if shape is not None and not keeps_tiles(shuffle.result, shape) and self._is_long(shuffle.result, self.dtype(held)):
                shuffle = held.form.shuffle(dims, by_dims=True) or shuffle  # rows as long as one dim, not as several
            order = held.form.in_order(dims)
            layout_meanwhile = self._for_permute(shuffle.shape, shuffle.result, self.dtype(held), shuffle.dims)
            self._reshape_and_layout(held, shuffle.shape, layout_meanwhile)
            self.doing = f"permute {list(shuffle.shape)} by {list(shuffle.dims)}"
            held.tensor = self.ttnn.permute(held.tensor, list(shuffle.dims), **self.in_dram)
            held.form = replace(held.form, order=order)
        self._reshape_and_layout(held, held.shape if shape is None else shape, layout or self.layout(held))

    def _reshape_and_layout(self, held: HeldTensor, shape: Shape, layout: Layout) -> None:
        """Row-major tensors are grouped before they are tilized, tiles that must be broken up afterwards not made again."""
        if layout is Layout.ROW_MAJOR and not keeps_tiles(held.shape, shape):
            self.to_layout(held, layout)
        self.reshape(held, shape)
        self.to_layout(held, layout)

    def _for_permute(self, before: Shape, after: Shape, dtype: DType, dims: Sequence[int]) -> Layout:
        """Rows where that takes fewer bytes and a core can hold two of them; but an axis that leaves the last place makes rows
        that are short or long, so tiles are then taken up to twice the bytes."""

        def both(layout: Layout) -> int:
            return self.bytes_as(before, dtype, layout) + self.bytes_as(after, dtype, layout)

        if self._is_long(before, dtype) or self._is_long(after, dtype):
            return Layout.TILE
        tiles, rows = both(Layout.TILE), both(Layout.ROW_MAJOR)
        stays = dims[-1] == len(dims) - 1
        return Layout.ROW_MAJOR if (rows <= tiles if stays else 2 * rows < tiles) else Layout.TILE

    def _is_long(self, shape: Shape, dtype: DType) -> bool:
        """Whether a core cannot hold two rows, as the kernels that break up tiles do."""
        return 2 * TensorSpec(shape, dtype, Layout.ROW_MAJOR).page_bytes > self.session.board.l1.bank_bytes

    # Shapes that calls like ---------------------------------------------------------------------------------------------

    def rows(self, held: HeldTensor, layout: Layout = Layout.TILE) -> None:
        """[1, 1, all but the last axis, last axis]; a tensor whose last dim is that axis already keeps its shape."""
        shape = held.shape
        if self.layout(held) is not layout and len(shape) > 1:
            self._reshape_and_layout(held, (1, 1, math.prod(shape[:-1]), shape[-1]), layout)

    def last_axis(self, held: HeldTensor, size: int) -> None:
        """Tiles of [1, 1, rows, ``size``], where the last axis of the form is a run of that size."""
        if held.shape[-1] != size or self.layout(held) is not Layout.TILE:
            self._reshape_and_layout(held, (1, 1, held.form.volume // size, size), Layout.TILE)

    def plain(self, held: HeldTensor, layout: Layout = Layout.TILE) -> None:
        """As torch has it."""
        shape = held.form.shape or (1,)
        self.arrange(held, range(len(held.form.dims)), shape, layout)


def keeps_tiles(before: Shape, after: Shape) -> bool:
    """Whether TTNN's reshape of tiles is another name for the same buffer: the last two dims stay, or the last does and both
    heights are whole tiles."""
    if len(before) < 2 or len(after) < 2 or before[-1] != after[-1]:
        return tuple(before) == tuple(after)
    return before[-2] == after[-2] or not (before[-2] % TILE_EDGE or after[-2] % TILE_EDGE)


def padding_factor(shape: Shape) -> float:
    """Elements of the tiles over elements of the tensor."""
    height = shape[-2] if len(shape) > 1 else 1
    return round_up(height, TILE_EDGE) * round_up(shape[-1], TILE_EDGE) / (height * shape[-1])
