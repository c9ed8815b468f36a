"""Adds two tensors in L1 and frees both."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def main(device):
    a, b = tensor(device, 2048, 2048), tensor(device, 2048, 2048)
    total = ttnn.add(a, b, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.deallocate(a)
    ttnn.deallocate(b)
    return ttnn.to_torch(total).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
