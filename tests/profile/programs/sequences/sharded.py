"""Height shards in L1, an operation between, then DRAM."""

import ttnn


def main(device):
    sharded = ttnn.create_sharded_memory_config((4096, 128), ttnn.CoreGrid(y=8, x=8), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.empty([1, 1, 4096, 128], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=sharded)
    y = ttnn.relu(x)
    ttnn.deallocate(x)
    z = ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)
    ttnn.deallocate(y)
    ttnn.deallocate(z)


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
