"""Changes the layout of tensors on a device as a call needs it, with the calls that a port would make.

Nothing here frees: a tensor is freed with its last Python reference, as TTNN counts them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.memory_config import BufferType, MemoryConfig
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, round_up
from ssinghal.device.session import Session
from ssinghal.operators.settings.passing import built
from ssinghal.operators.settings.table import table
from ssinghal.plan.activations import FLOATS
from ssinghal.plan.axis_layout import AxisLayout, Shuffle
from ssinghal.plan.placement import DRAM, IN_DRAM, L1, StepChoice
from ssinghal.plan.policy import PortingPolicy


@dataclass
class HeldTensor:
    """A value on the device. Two values that are views of each other hold the same tensor.

    ``is_constant``: a weight or constant, which a conversion does not replace.
    """

    tensor: Any
    axes: AxisLayout
    is_constant: bool = False

    @property
    def shape(self) -> Shape:
        """The shape of the device tensor, which has the atoms of ``axes`` in their order, grouped in some way."""
        return tuple(self.tensor.shape)


class LayoutOps:
    """Changes the layout of tensors in place.

    ``doing``: the call under way, for the report if TTNN rejects it. ``choice``: where the step under way puts its tensors.
    ``in_tiles``: the dtype of its floats in tiles, which matters where that is a block float.
    """

    def __init__(self, session: Session, policy: PortingPolicy) -> None:
        self.session, self.policy, self.ttnn = session, policy, session.ttnn
        self.doing = ""
        self.choice: StepChoice = IN_DRAM
        self.in_tiles = DType.BFLOAT16

    # Facts --------------------------------------------------------------------------------------------------------------

    def layout(self, x: HeldTensor) -> Layout:
        return Layout.TILE if x.tensor.layout == self.ttnn.TILE_LAYOUT else Layout.ROW_MAJOR

    def dtype(self, x: HeldTensor) -> DType:
        return DType(x.tensor.dtype.name.lower())

    def bytes_as(self, shape: Shape, dtype: DType, layout: Layout) -> int:
        """Returns the bytes of a tensor in DRAM, over all banks; block floats in rows are bfloat16."""
        dtype = DType.BFLOAT16 if dtype.is_block_float and layout is Layout.ROW_MAJOR else dtype
        return TensorSpec(shape, dtype, layout).allocated_bytes(self.session.board)

    @property
    def placed(self) -> dict[str, Any]:
        """The argument that puts the results of a step where its choice has them; none where TTNN chooses."""
        memory = self.choice.memory
        return {} if memory is None else {"memory_config": self.session.memory_config(memory, self.ttnn)}

    def same_place(self, x: HeldTensor) -> dict[str, Any]:
        """Returns the argument that leaves a tensor where it is; one in shards gets the same shards without any."""
        return {} if self.is_sharded(x) else self.beside(x)

    def beside(self, x: HeldTensor) -> dict[str, Any]:
        """Returns the argument that leaves a converted tensor in the memory that it is in, interleaved.

        A constant is converted for the call alone, into the memory of its results.
        """
        memory = self.choice.memory
        for_call = x.is_constant and memory is not None and memory.buffer is BufferType.L1
        return {"memory_config": self.session.memory_config(L1 if for_call or self.is_in_l1(x) else DRAM, self.ttnn)}

    def settings(self, function: str) -> dict[str, Any]:
        """Returns the settings of the step's choice as TTNN's objects. ``function``: of TTNN, which takes them."""
        fields = table().functions[function]
        return {name: built(self.ttnn, value, fields[name]) for name, value in self.choice.settings_of_case.items()}

    def is_in_l1(self, x: HeldTensor) -> bool:
        return bool(x.tensor.memory_config().buffer_type == self.ttnn.BufferType.L1)

    def is_sharded(self, x: HeldTensor) -> bool:
        return self.is_in_l1(x) and self.memory(x).shard is not None

    def memory(self, x: HeldTensor) -> MemoryConfig:
        return self.session.spec_of(x.tensor).memory

    # Placement ------------------------------------------------------------------------------------------------------------

    def move(self, x: HeldTensor, memory: MemoryConfig | None) -> None:
        """Moves a tensor to ``memory``, unless it is there; None: it stays."""
        if memory is None or self.memory(x) == memory:
            return
        self.doing = f"to_memory_config {list(x.shape)} to {memory}"
        x.tensor = self.ttnn.to_memory_config(x.tensor, self.session.memory_config(memory, self.ttnn))

    def spread(self, x: HeldTensor, memory: MemoryConfig | None) -> None:
        """Moves a tensor to the interleaved memory in which its layout is converted; to shards it is moved after that.

        Shards of rows that are no complete tiles cannot be converted: these are moved before.
        """
        if memory is not None and (memory.shard is None or not takes_tiles(self.memory(x))):
            self.move(x, memory)

    # Layout -------------------------------------------------------------------------------------------------------------

    def to_layout(self, x: HeldTensor, layout: Layout) -> None:
        """Converts a tensor to ``layout``, if it has another one."""
        if self.layout(x) is layout:
            return
        if self.is_sharded(x) and not takes_tiles(self.memory(x)):
            self.move(x, L1)
        self.doing = f"to_layout {list(x.shape)} to {layout.value}"
        target = self.ttnn.TILE_LAYOUT if layout is Layout.TILE else self.ttnn.ROW_MAJOR_LAYOUT
        is_packed = layout is Layout.TILE and self.in_tiles.is_block_float and self.dtype(x) in FLOATS
        kind = {"dtype": getattr(self.ttnn, self.in_tiles.value)} if is_packed else {}
        x.tensor = self.ttnn.to_layout(x.tensor, target, **kind, **self.same_place(x))

    def cast(self, x: HeldTensor, dtype: DType) -> None:
        """Converts a tensor to ``dtype``, if it has another one."""
        if self.dtype(x) is dtype:
            return
        self.to_layout(x, Layout.TILE)
        self.doing = f"typecast {list(x.shape)} to {dtype.value}"
        x.tensor = self.ttnn.typecast(x.tensor, getattr(self.ttnn, dtype.value), **self.same_place(x))

    def reshape(self, x: HeldTensor, shape: Shape) -> None:
        """Groups the same rows differently.

        Tiles are kept where their grid stays. Else the tensor becomes row-major first, since TTNN's reshape of tiles lists
        every page on the host.
        """
        if x.shape == tuple(shape):
            return
        if self.layout(x) is Layout.TILE and not keeps_tiles(x.shape, shape):
            self.to_layout(x, Layout.ROW_MAJOR)
        self.doing = f"reshape {list(x.shape)} to {list(shape)}"
        x.tensor = self.ttnn.reshape(x.tensor, list(shape))

    def arrange(self, x: HeldTensor, dims: Sequence[int], shape: Shape | None = None, layout: Layout | None = None) -> None:
        """Brings the dims into this order on the device, grouped as ``shape`` and in ``layout`` where given."""
        shuffle = x.axes.shuffle(dims, x.shape)
        if shuffle is not None:
            if shape is not None and not keeps_tiles(shuffle.result, shape) and self._is_long(shuffle.result, self.dtype(x)):
                shuffle = x.axes.shuffle(dims, by_dims=True) or shuffle  # rows as long as one dim, not as several
            order = x.axes.atoms_of(dims)
            self._permuted(x, shuffle)
            x.axes = replace(x.axes, order=order)
        self.reshape_and_layout(x, x.shape if shape is None else shape, layout or self.layout(x))

    def last_dim_innermost(self, x: HeldTensor) -> None:
        """Brings the last dim innermost on the device, in one call where these are heads in tiles, else as tiles of rows; the
        others stay in order."""
        shuffle, axes = x.axes.shuffle_last(), x.axes.with_last_innermost()
        if shuffle is None:
            return
        if joins_heads(x.axes, x.shape, self.layout(x)):
            self.doing = "ttnn.transformer.concatenate_heads"
            x.tensor = self.ttnn.transformer.concatenate_heads(x.tensor, **self.beside(x))
        else:
            self._permuted(x, shuffle)
            size = axes.shape[-1]
            self.reshape_and_layout(x, (1, 1, axes.volume // size, size), Layout.TILE)
        x.axes = axes

    def _permuted(self, x: HeldTensor, shuffle: Shuffle) -> None:
        layout = self._permute_layout(shuffle.shape, shuffle.result, self.dtype(x), shuffle.dims)
        self.reshape_and_layout(x, shuffle.shape, layout)
        self.doing = f"permute {list(shuffle.shape)} by {list(shuffle.dims)}"
        x.tensor = self.ttnn.permute(x.tensor, list(shuffle.dims), **self.beside(x))

    def reshape_and_layout(self, x: HeldTensor, shape: Shape, layout: Layout) -> None:
        """Reshapes row-major tensors before they are tilized, and tiles after they are untilized if they must be at all."""
        if layout is Layout.ROW_MAJOR and not keeps_tiles(x.shape, shape):
            self.to_layout(x, layout)
        self.reshape(x, shape)
        self.to_layout(x, layout)

    def _permute_layout(self, before: Shape, after: Shape, dtype: DType, dims: Sequence[int]) -> Layout:
        """Returns rows where they take fewer bytes and a core can hold two of them, else tiles.

        An axis that leaves the last place makes rows that are short or long, so tiles may then take up to twice the bytes.
        """

        def both(layout: Layout) -> int:
            return self.bytes_as(before, dtype, layout) + self.bytes_as(after, dtype, layout)

        if self._is_long(before, dtype) or self._is_long(after, dtype):
            return Layout.TILE
        tiles, rows = both(Layout.TILE), both(Layout.ROW_MAJOR)
        stays = dims[-1] == len(dims) - 1
        return Layout.ROW_MAJOR if (rows <= tiles if stays else 2 * rows < tiles) else Layout.TILE

    def _is_long(self, shape: Shape, dtype: DType) -> bool:
        """Returns whether a core cannot hold two rows, as the kernels that untilize must."""
        dtype = DType.BFLOAT16 if dtype.is_block_float else dtype
        return 2 * TensorSpec(shape, dtype, Layout.ROW_MAJOR).page_bytes > self.session.board.l1.bank_bytes

    # Shapes for calls -----------------------------------------------------------------------------------------------------

    def to_rows(self, x: HeldTensor, layout: Layout = Layout.TILE) -> None:
        """Brings a tensor into ``layout`` as [1, 1, all but the last axis, last axis]; one in that layout keeps its shape."""
        shape = x.shape
        if self.layout(x) is not layout and len(shape) > 1:
            self.reshape_and_layout(x, (1, 1, math.prod(shape[:-1]), shape[-1]), layout)

    def to_last_axis(self, x: HeldTensor, size: int) -> None:
        """Brings a tensor into tiles of [1, 1, rows, ``size``]; the last axes on the device must have that size."""
        if x.shape[-1] != size or self.layout(x) is not Layout.TILE:
            self.reshape_and_layout(x, (1, 1, x.axes.volume // size, size), Layout.TILE)

    def to_torch_order(self, x: HeldTensor, layout: Layout = Layout.TILE) -> None:
        """Brings a tensor into torch's shape and order of dims."""
        shape = x.axes.shape or (1,)
        self.arrange(x, range(len(x.axes.dims)), shape, layout)


def takes_tiles(memory: MemoryConfig) -> bool:
    """Returns whether a tensor in tiles can be there: shards must be complete tiles."""
    return memory.shard is None or not any(edge % TILE_EDGE for edge in memory.shard.shape[-2:])


def keeps_tiles(before: Shape, after: Shape) -> bool:
    """Returns whether TTNN's reshape of tiles only renames the same buffer.

    The last two dims stay, or the last one does and both heights are complete tiles.
    """
    if len(before) < 2 or len(after) < 2 or before[-1] != after[-1]:
        return tuple(before) == tuple(after)
    return before[-2] == after[-2] or not (before[-2] % TILE_EDGE or after[-2] % TILE_EDGE)


def joins_heads(axes: AxisLayout, device: Shape, layout: Layout) -> bool:
    """Returns whether TTNN joins the heads of a device tensor in one call: [batch, heads, length, size] in complete tiles."""
    return layout is Layout.TILE and axes.has_heads(device) and device[-1] % TILE_EDGE == 0


def padding_factor(shape: Shape) -> float:
    """Returns the elements of the tiles divided by those of the tensor."""
    height = shape[-2] if len(shape) > 1 else 1
    return round_up(height, TILE_EDGE) * round_up(shape[-1], TILE_EDGE) / (height * shape[-1])
