"""From the host to DRAM, on to L1 below another tensor, then moved up into the hole that leaves."""

import torch
import ttnn


def main(device):
    x = ttnn.from_torch(torch.zeros(1, 1, 512, 512), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    first = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
    second = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
    ttnn.deallocate(first)
    second = ttnn.move(second)
    ttnn.deallocate(x)
    ttnn.deallocate(second)


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
