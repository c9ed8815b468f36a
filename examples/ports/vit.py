"""ViT-base at batch 8, 224 x 224, block sharded in L1: twelve encoder layers and the classifier head.

    ssinghal exec --board n150 -- python examples/ports/vit.py

An own program with random weights. Its shapes, dtypes, shard shapes and core grids are those recorded from a tuned port
that is known to run on cards (635 operations, no L1_SMALL region). Activations are bfloat8_b and never leave L1: 8 images of
197 tokens, padded to 224 rows each, over 8 x 8 cores; attention uses 6 x 8 of them, two heads a
column, as do the projection of the patches and the classifier.
"""

from typing import Any

import torch
import ttnn

BATCH, SIDE, PATCH = 8, 224, 16
HIDDEN, MLP, HEADS, LAYERS = 768, 3072, 12, 12
TOKENS = (SIDE // PATCH) ** 2 + 1  # and the class token
CLASSES = 1152  # 1,000, padded to six tiles on each of six columns
ROW_TILES = 7  # 197 tokens of one image
FULL = ttnn.CoreGrid(y=8, x=8)
HEAD = ttnn.CoreGrid(y=8, x=6)


def linear_on(grid: Any, in_tiles: int, out_tiles: int, subblock: int, activation: Any = None) -> Any:
    """One image a row of cores; each core multiplies `in_tiles` at a time and holds `out_tiles` columns of the result."""
    return ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(grid.x, grid.y),
        in0_block_w=in_tiles,
        out_subblock_h=1,
        out_subblock_w=subblock,
        per_core_M=ROW_TILES,
        per_core_N=out_tiles,
        transpose_mcast=False,
        fused_activation=activation,
    )


def product_of_heads(in_tiles: int, out_tiles: int) -> Any:
    """Two heads of one image on each of 48 cores, operands and result resident in the core."""
    return ttnn.MatmulMultiCoreReuseProgramConfig(
        compute_with_storage_grid_size=(HEAD.x, HEAD.y),
        in0_block_w=in_tiles,
        out_subblock_h=1,
        out_subblock_w=out_tiles,
        per_core_M=2 * ROW_TILES,
        per_core_N=out_tiles,
    )


NORM = ttnn.LayerNormShardedMultiCoreProgramConfig(
    compute_with_storage_grid_size=(FULL.x, FULL.y), subblock_w=3, block_h=ROW_TILES, block_w=3, inplace=False
)
HALF_DEST = ttnn.WormholeComputeKernelConfig(  # without it layer_norm accumulates in float32, in twice the buffers
    math_fidelity=ttnn.MathFidelity.HiFi2, math_approx_mode=True, fp32_dest_acc_en=False, packer_l1_acc=True
)
SOFTMAX = ttnn.SoftmaxShardedMultiCoreProgramConfig(
    compute_with_storage_grid_size=(HEAD.x, HEAD.y), subblock_w=ROW_TILES, block_h=2 * ROW_TILES, block_w=ROW_TILES
)
QKV = linear_on(FULL, in_tiles=3, out_tiles=9, subblock=3)
PROJECT = linear_on(FULL, in_tiles=3, out_tiles=3, subblock=3)
EXPAND = linear_on(FULL, in_tiles=3, out_tiles=12, subblock=6, activation=(ttnn.UnaryOpType.GELU, True))
CONTRACT = linear_on(FULL, in_tiles=12, out_tiles=3, subblock=3)
CLASSIFY = linear_on(HEAD, in_tiles=2, out_tiles=6, subblock=6)


def block_sharded(grid: Any, columns: int) -> Any:
    return ttnn.create_sharded_memory_config(
        (BATCH, ROW_TILES * 32, columns), core_grid=grid, strategy=ttnn.ShardStrategy.BLOCK
    )


def weight(rows: int, columns: int, dtype: Any = ttnn.bfloat8_b) -> Any:
    return ttnn.from_torch(torch.randn(rows, columns) * 0.02, dtype=dtype, layout=ttnn.TILE_LAYOUT)


def dense(prefix: str, rows: int, columns: int) -> dict[str, Any]:
    return {f"{prefix}.weight": weight(rows, columns), f"{prefix}.bias": weight(1, columns)}


def norm_weights(prefix: str) -> dict[str, Any]:
    return {f"{prefix}.{name}": weight(1, HIDDEN, ttnn.bfloat16) for name in ("weight", "bias")}


def prepare_weights(device: Any) -> dict[str, Any]:
    """All weights are made on the host, then copied to DRAM one after the other."""
    host = dense("patches", SIDE // 14 * 64, HIDDEN)
    for name, rows in (("class", 1), ("position", TOKENS)):
        host[name] = ttnn.from_torch(torch.randn(1, rows, HIDDEN), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT)
    for layer in range(LAYERS):
        host |= dense(f"{layer}.qkv", HIDDEN, 3 * HIDDEN)
        host |= dense(f"{layer}.project", HIDDEN, HIDDEN)
        host |= dense(f"{layer}.expand", HIDDEN, MLP)
        host |= dense(f"{layer}.contract", MLP, HIDDEN)
        host |= norm_weights(f"{layer}.norm1") | norm_weights(f"{layer}.norm2")
    host |= norm_weights("norm") | dense("classify", HIDDEN, CLASSES)
    return {name: ttnn.to_device(tensor, device) for name, tensor in host.items()}


def patches(pixels: Any, weights: dict[str, Any]) -> Any:
    """Sixteen rows of 64 values (16 pixels, four channels) folded to one row a patch, then the patch projection."""
    folded = ttnn.fold(pixels, PATCH, 1)
    ttnn.deallocate(pixels)
    folded = ttnn.to_memory_config(folded, ttnn.L1_MEMORY_CONFIG)
    folded = ttnn.to_layout(folded, ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b)
    result = ttnn.linear(
        folded,
        weights["patches.weight"],
        bias=weights["patches.bias"],
        memory_config=ttnn.L1_MEMORY_CONFIG,
        dtype=ttnn.bfloat16,
        core_grid=HEAD,
    )
    result = ttnn.to_layout(result, ttnn.ROW_MAJOR_LAYOUT)
    result = ttnn.reshape(result, (BATCH, TOKENS - 1, HIDDEN))
    return result


def embed(pixels: Any, class_token: Any, positions: Any, weights: dict[str, Any]) -> Any:
    parts = patches(pixels, weights)
    tokens = ttnn.concat([class_token, parts], 1, memory_config=ttnn.L1_MEMORY_CONFIG)
    tokens = ttnn.to_layout(tokens, ttnn.TILE_LAYOUT)
    return ttnn.add(tokens, positions, memory_config=ttnn.L1_MEMORY_CONFIG, dtype=ttnn.bfloat8_b)


def norm(hidden: Any, weights: dict[str, Any], name: str, compute: Any = None) -> Any:
    return ttnn.layer_norm(
        hidden,
        weight=weights[f"{name}.weight"],
        bias=weights[f"{name}.bias"],
        epsilon=1e-12,
        memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG,
        program_config=NORM,
        compute_kernel_config=compute,
    )


def linear(hidden: Any, weights: dict[str, Any], name: str, config: Any) -> Any:
    return ttnn.linear(
        hidden,
        weights[f"{name}.weight"],
        bias=weights[f"{name}.bias"],
        memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG,
        dtype=ttnn.bfloat8_b,
        program_config=config,
    )


def attention(hidden: Any, weights: dict[str, Any], layer: int) -> Any:
    """Scores of all heads are the largest tensor of the layer; every operand is freed as soon as its product exists."""
    fused = linear(hidden, weights, f"{layer}.qkv", QKV)
    fused = ttnn.reshard(fused, block_sharded(HEAD, 3 * HIDDEN))
    query, key, value = ttnn.transformer.split_query_key_value_and_split_heads(
        fused, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG, num_heads=HEADS
    )
    ttnn.deallocate(fused)
    ttnn.deallocate(hidden)
    heads = {"memory_config": ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG, "dtype": ttnn.bfloat8_b}
    scores = ttnn.matmul(query, key, program_config=product_of_heads(in_tiles=2, out_tiles=ROW_TILES), **heads)
    ttnn.deallocate(query)
    ttnn.deallocate(key)
    scores = ttnn.multiply_(scores, (HIDDEN // HEADS) ** -0.5)
    scores = ttnn.softmax_in_place(scores, program_config=SOFTMAX)
    context = ttnn.matmul(scores, value, program_config=product_of_heads(in_tiles=ROW_TILES, out_tiles=2), **heads)
    ttnn.deallocate(scores)
    ttnn.deallocate(value)
    context = ttnn.transformer.concatenate_heads(context, memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG)
    context = ttnn.to_memory_config(context, block_sharded(FULL, HIDDEN))
    result = linear(context, weights, f"{layer}.project", PROJECT)
    ttnn.deallocate(context)
    return result


def feed_forward(hidden: Any, weights: dict[str, Any], layer: int) -> Any:
    wide = linear(hidden, weights, f"{layer}.expand", EXPAND)
    ttnn.deallocate(hidden)
    result = linear(wide, weights, f"{layer}.contract", CONTRACT)
    ttnn.deallocate(wide)
    return result


def add(a: Any, b: Any) -> Any:
    return ttnn.add(a, b, memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG, dtype=ttnn.bfloat8_b)


def encoder_layer(hidden: Any, weights: dict[str, Any], layer: int) -> Any:
    attended = attention(norm(hidden, weights, f"{layer}.norm1", HALF_DEST), weights, layer)
    attended = add(attended, hidden)
    result = feed_forward(norm(attended, weights, f"{layer}.norm2", HALF_DEST), weights, layer)
    result = add(result, attended)
    ttnn.deallocate(attended)
    return result


def classify(hidden: Any, weights: dict[str, Any]) -> Any:
    result = norm(hidden, weights, "norm")
    result = ttnn.reshard(result, block_sharded(HEAD, HIDDEN))
    return linear(result, weights, "classify", CLASSIFY)


def encode(tokens: Any, weights: dict[str, Any]) -> Any:
    hidden = ttnn.to_memory_config(tokens, block_sharded(FULL, HIDDEN))
    ttnn.deallocate(tokens)
    for layer in range(LAYERS):
        hidden = encoder_layer(hidden, weights, layer)
    return classify(hidden, weights)


def image_shards() -> Any:
    """Half an image on each of 16 cores: 112 rows of 14 patches, 1,568 rows of 64 values."""
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 1))})
    rows = BATCH * SIDE * (SIDE // PATCH) // 16
    shard = ttnn.ShardSpec(cores, [rows, 64], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)


def run(device: Any) -> Any:
    class_token = ttnn.from_torch(torch.randn(BATCH, 1, HIDDEN), dtype=ttnn.bfloat16, device=device)
    positions = ttnn.from_torch(
        torch.randn(BATCH, TOKENS, HIDDEN), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device
    )
    weights = prepare_weights(device)
    pixels = ttnn.from_torch(
        torch.randn(BATCH, SIDE, SIDE // PATCH, 4 * PATCH),
        dtype=ttnn.bfloat16,
        layout=ttnn.ROW_MAJOR_LAYOUT,
        device=device,
        memory_config=image_shards(),
    )
    return ttnn.to_torch(encode(embed(pixels, class_token, positions, weights), weights))


def main() -> None:
    torch.manual_seed(0)
    device = ttnn.open_device(device_id=0)
    try:
        scores = run(device)
    finally:
        ttnn.close_device(device)
    print(f"vit: scores {tuple(scores.shape)}")


if __name__ == "__main__":
    main()
