"""Offers the ways of calling products of matrices, normalizations, attention, element-wise operators and views.

TTNN's products, normalizations and element-wise calls write any shards themselves, so results are offered in those that a
convolution or product after them may take. Of the program configs one is offered for each way: where TTNN chooses itself for
an interleaved tensor in L1, it takes a program that reads the weight once for each tile of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import TILE_EDGE, Board, Layout, Shape, TensorSpec, ceil_div
from ssinghal.operators import named
from ssinghal.plan.layout_ops import joins_heads
from ssinghal.plan.lowering import PlannedCall
from ssinghal.plan.placement import DRAM, L1, Form, StepChoice
from ssinghal.plan.placing.matmul_programs import Blocking, Product, Settings, over_columns, over_grid, over_rows
from ssinghal.plan.placing.offers import Offer, Operands, interleaved, moves_to


def linear(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """The activation as it is; the result interleaved, or in the shards that its cores compute."""
    if set(operands) != {0}:
        yield from interleaved(planned, operands, board)
        return
    form, (columns, inner) = operands[0].form, planned.case.inputs[1]
    flat = _flat(form, inner)
    memory = flat.memory
    if memory.shard is not None and not _is_cut_evenly(flat, inner):
        memory = L1
    moves = moves_to(operands, memory)
    for result, settings in _products(replace_memory(flat, memory), columns, board):
        yield StepChoice(moves=moves, memory=result, settings=settings)
    if memory == DRAM:
        for result, settings in _products(replace_memory(flat, L1), columns, board):
            yield StepChoice(moves=((0, L1),), memory=result, settings=settings)
    yield StepChoice(moves=moves, memory=DRAM)


def _flat(form: Form, inner: int) -> TensorSpec:
    """Returns the spec of an activation as the call takes it: in tiles, its last dim innermost, of the size ``inner``."""
    if form.layout is Layout.TILE and form.shape[-1] == inner and form.axes.shuffle_last() is None:
        return form.spec
    memory = form.memory if form.memory.shard is None else L1
    shape: Shape = (1, 1, math.prod(form.shape) // inner, inner)
    if joins_heads(form.axes, form.shape, form.layout):
        shape = (form.shape[0], form.shape[2], inner)
    return TensorSpec(shape, form.dtype, Layout.TILE, memory)


def replace_memory(spec: TensorSpec, memory: MemoryConfig) -> TensorSpec:
    return TensorSpec(spec.shape, spec.dtype, spec.layout, memory)


def _is_cut_evenly(spec: TensorSpec, inner: int) -> bool:
    """Returns whether a product takes these shards: of tiles, on cores that start at (0, 0), the inner dim without padding."""
    shard = spec.memory.shard
    if shard is None or len(shard.shape) != 2 or shard.shape[0] % TILE_EDGE or shard.shape[1] % TILE_EDGE:
        return False
    return shard.kind in (ShardKind.HEIGHT, ShardKind.BLOCK, ShardKind.WIDTH) and inner % shard.shape[1] == 0


def _products(x: TensorSpec, columns: int, board: Board) -> Iterator[tuple[MemoryConfig, Settings]]:
    """Yields where the result of ``x`` times a weight with ``columns`` goes, and the program config for that."""
    height, inner = x.padded_2d
    product = Product(height // TILE_EDGE, inner // TILE_EDGE, ceil_div(columns, TILE_EDGE))
    shard = x.memory.shard
    if shard is None:
        yield L1, _interleaved_program(product, board)
        yield from _into_shards(product, board)
    elif shard.kind is ShardKind.HEIGHT:
        cores = ceil_div(height, shard.shape[0])
        yield L1, over_rows(product, cores, board.grid, Blocking())
        result = _shards(ShardKind.HEIGHT, shard.shape[0] // TILE_EDGE, product.columns, shard.cores)
        yield result, over_rows(product, cores, board.grid, Blocking(sharded_result=True))
    elif shard.kind is ShardKind.BLOCK:
        across, down = shard.cores.bounds
        parts = inner // shard.shape[1]
        wide = ceil_div(product.columns, across)
        yield L1, over_grid(product, (across, down), Blocking(parts))
        used = Cores.grid(ceil_div(product.columns, wide), down)
        result = _shards(ShardKind.BLOCK, shard.shape[0] // TILE_EDGE, wide, used)
        yield result, over_grid(product, (across, down), Blocking(parts, sharded_result=True))
    else:
        parts = inner // shard.shape[1]
        wide = ceil_div(product.columns, parts)
        cores = ceil_div(product.columns, wide)
        yield L1, over_columns(product, cores, board.grid, Blocking(parts))
        result = _shards(ShardKind.WIDTH, product.rows, wide, Cores.first(cores, board.grid))
        yield result, over_columns(product, cores, board.grid, Blocking(parts, sharded_result=True))


def _interleaved_program(product: Product, board: Board) -> Settings:
    """Returns the config that leaves the least tiles of the result to a core."""
    across, down = board.grid
    cores = across * down
    grid = ceil_div(product.rows, down) * ceil_div(product.columns, across)
    rows = ceil_div(product.rows, cores) * product.columns
    columns = product.rows * ceil_div(product.columns, cores)
    if grid <= min(rows, columns):
        return over_grid(product, board.grid, Blocking())
    over = over_rows if rows <= columns else over_columns
    return over(product, cores, board.grid, Blocking())


def _into_shards(product: Product, board: Board) -> Iterator[tuple[MemoryConfig, Settings]]:
    for memory in _spread(product.rows, product.columns, board):
        shard = memory.shard
        if shard is not None and shard.kind is ShardKind.HEIGHT:
            yield memory, over_rows(product, shard.cores.count, board.grid, Blocking(sharded_result=True))
        elif shard is not None:
            yield memory, over_grid(product, shard.cores.bounds, Blocking(sharded_result=True))


def _spread(rows: int, columns: int, board: Board) -> list[MemoryConfig]:
    """Returns shards by rows, and by both, for a tensor of ``rows`` x ``columns`` tiles: over more than one core in each
    direction that is cut, and over at least half as many as the other kind takes."""
    across, down = board.grid
    high = ceil_div(rows, across * down)
    cores = Cores.first(ceil_div(rows, high), board.grid)
    kinds = [_shards(ShardKind.HEIGHT, high, columns, cores)] if cores.count > 1 else []
    across, down = block_grid(rows, columns, board)
    if across > 1 and down > 1:
        kinds.append(_shards(ShardKind.BLOCK, ceil_div(rows, down), columns // across, Cores.grid(across, down)))
    counts = [kind.shard.cores.count for kind in kinds if kind.shard is not None]
    return [kind for kind, count in zip(kinds, counts, strict=True) if 2 * count >= max(counts)]


def _shards(kind: ShardKind, rows: int, columns: int, cores: Cores) -> MemoryConfig:
    """Returns shards of ``rows`` x ``columns`` tiles."""
    return MemoryConfig(BufferType.L1, ShardSpec(kind, (rows * TILE_EDGE, columns * TILE_EDGE), cores))


def block_grid(rows: int, columns: int, board: Board) -> tuple[int, int]:
    """Returns the cores across and down that take a tensor of ``rows`` x ``columns`` tiles in blocks: as many as divide its
    columns evenly, so that a product can take it, and as many rows of cores as get a block."""
    most_across, most_down = board.grid
    across = next(n for n in range(most_across, 0, -1) if columns % n == 0)
    return across, ceil_div(rows, ceil_div(rows, most_down))


def sharded_alike(spec: TensorSpec, board: Board) -> list[MemoryConfig]:
    """Returns the shards by rows, and by both, that convolutions and products after a call may take its result in."""
    height, width = spec.padded_2d
    return _spread(height // TILE_EDGE, width // TILE_EDGE, board) if spec.layout is Layout.TILE else []


def elementwise(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Operands as they are; the result in the shards of one of them, in others, or interleaved."""
    in_tiles = [held.form for held in operands.values() if held.form.layout is Layout.TILE]
    results = [form.memory for form in in_tiles if form.memory.shard is not None]
    if in_tiles:
        largest = max(in_tiles, key=lambda form: math.prod(form.shape))
        results += sharded_alike(replace_memory(largest.spec, L1), board)
    for memory in dict.fromkeys((L1, *results, DRAM)):
        yield StepChoice(memory=memory)
    if any(not held.form.in_l1 or held.form.layout is not Layout.TILE for held in operands.values()):
        yield StepChoice(moves=moves_to(operands, L1), memory=L1)


def normalization(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """In the blocks that the operand has; or of an interleaved operand, into any shards. TTNN takes no shards by rows."""
    if 0 not in operands:
        yield from interleaved(planned, operands, board)
        return
    form = operands[0].form
    if form.memory.shard is not None and form.memory.shard.kind in (ShardKind.BLOCK, ShardKind.WIDTH):
        yield StepChoice(memory=form.memory)
    in_tiles = form.layout is Layout.TILE
    shards = sharded_alike(replace_memory(form.spec, L1), board) if in_tiles else []
    for moves in dict.fromkeys((moves_to(operands, L1), ())):
        if moves or form.memory.shard is None:
            for memory in (L1, *shards, DRAM):
                yield StepChoice(moves=moves, memory=memory)


def rows_alone(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Interleaved; or in the operand's own shards, where each core has complete rows."""
    yield from interleaved(planned, operands, board)
    memory = operands[0].form.memory if 0 in operands else DRAM
    if memory.shard is not None and memory.shard.kind is ShardKind.HEIGHT:
        yield StepChoice(memory=memory)


def batched(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Interleaved: operands as they are, or all in L1."""
    sharded = any(held.form.memory.shard is not None for held in operands.values())
    moves = moves_to(operands, L1)
    yield StepChoice(moves=moves, memory=L1)
    if not sharded and moves:
        yield StepChoice(memory=L1)
    yield StepChoice(moves=moves if sharded else (), memory=DRAM)


def view(planned: PlannedCall, operands: Operands, board: Board) -> Iterator[StepChoice]:
    """Views make no call, unless the order of the elements prevents them; then in L1 as well."""
    yield StepChoice(memory=L1)
    moves = moves_to(operands, L1)
    if moves:
        yield StepChoice(moves=moves, memory=L1)


_ELEMENTWISE = (
    "relu silu sigmoid tanh mish hardswish gelu softplus leaky_relu hardtanh relu6 hardsigmoid elu exp sqrt rsqrt neg abs"
    " square clamp add sub mul div maximum minimum pow"
)
OFFERS: Mapping[str, Offer] = {
    **dict.fromkeys(named(_ELEMENTWISE), elementwise),
    **dict.fromkeys(named("linear"), linear),
    **dict.fromkeys(named("native_layer_norm rms_norm"), normalization),
    **dict.fromkeys(named("softmax"), rows_alone),
    **dict.fromkeys(named("matmul bmm mm scaled_dot_product_attention"), batched),
    **dict.fromkeys(named("view flatten unflatten unsqueeze squeeze permute transpose t clone identity dropout"), view),
}
