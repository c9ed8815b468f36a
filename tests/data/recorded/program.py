"""A program of eleven TTNN calls with shards, own dtypes and settings, of which the recordings in this folder were made.

    TTNN_CONFIG_OVERRIDES='{"enable_fast_runtime_mode": false}' TTNN_OPERATION_TRACE_DIR=trace \
        ssinghal exec -- python program.py --trace-params
    ssinghal profile -o profile -- python program.py
"""

from typing import Any

import torch
import ttnn

COMPUTE = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2, packer_l1_acc=True)
ONE_DIM = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
    compute_with_storage_grid_size=(8, 8),
    in0_block_w=2,
    out_subblock_h=1,
    out_subblock_w=4,
    per_core_M=1,
    per_core_N=4,
    fuse_batch=True,
    fused_activation=None,
    mcast_in0=False,
)


def run(device: Any) -> None:
    rows = ttnn.create_sharded_memory_config(
        (1, 1, 2048, 64), core_grid=ttnn.CoreGrid(y=8, x=8), strategy=ttnn.ShardStrategy.HEIGHT
    )

    def placed(*shape: int, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, memory: Any = None) -> Any:
        return ttnn.from_torch(torch.zeros(shape), dtype=dtype, layout=layout, device=device, memory_config=memory)

    sharded = placed(1, 1, 2048, 64, memory=rows)
    small = placed(1, 1, 2048, 64, dtype=ttnn.bfloat8_b, memory=ttnn.DRAM_MEMORY_CONFIG)
    weight = placed(64, 128, dtype=ttnn.bfloat8_b, memory=ttnn.DRAM_MEMORY_CONFIG)
    total = ttnn.add(sharded, small, memory_config=ttnn.L1_MEMORY_CONFIG, dtype=ttnn.bfloat8_b)
    ttnn.linear(
        sharded,
        weight,
        program_config=ONE_DIM,
        compute_kernel_config=COMPUTE,
        memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
        dtype=ttnn.bfloat16,
    )
    ttnn.matmul(small, weight, core_grid=ttnn.CoreGrid(y=4, x=8), transpose_b=False)
    ttnn.permute(ttnn.reshape(total, (1, 32, 64, 64)), (0, 2, 1, 3))
    ttnn.concat([small, total], dim=-1)
    ttnn.softmax(small, dim=-1)
    ttnn.to_layout(small, ttnn.ROW_MAJOR_LAYOUT)
    image = placed(1, 1, 56 * 56, 64, layout=ttnn.ROW_MAJOR_LAYOUT)
    ttnn.conv2d(
        input_tensor=image,
        weight_tensor=ttnn.from_torch(torch.zeros(128, 64, 3, 3), dtype=ttnn.float32),
        device=device,
        in_channels=64,
        out_channels=128,
        batch_size=1,
        input_height=56,
        input_width=56,
        kernel_size=(3, 3),
        stride=(2, 2),
        padding=(1, 1),
        conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b),
        compute_config=COMPUTE,
    )
    ttnn.max_pool2d(image, 1, 56, 56, 64, [2, 2], [2, 2], [0, 0], [1, 1])
    small[:, :, :32, :]
    ttnn.deallocate(sharded)


def main() -> None:
    device = ttnn.open_device(device_id=0, l1_small_size=24576)
    try:
        run(device)
    finally:
        ttnn.close_device(device)


if __name__ == "__main__":
    main()
