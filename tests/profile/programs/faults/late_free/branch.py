"""One of two results is used before the other and kept until the end of the function."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def main(device):
    a = tensor(device, 1024, 1024)
    wide = ttnn.concat([a, a, a, a], dim=3, memory_config=ttnn.L1_MEMORY_CONFIG)
    part = ttnn.slice(wide, [0, 0, 0, 0], [1, 1, 1024, 1024], memory_config=ttnn.L1_MEMORY_CONFIG)
    wider = ttnn.concat([part, part, part, part, part, part], dim=3, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.deallocate(wide)
    return ttnn.to_torch(wider).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
