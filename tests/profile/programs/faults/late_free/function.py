"""The first tensor is read once, at the start, and kept over three large additions."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def main(device):
    image = tensor(device, 2048, 2048)
    x = ttnn.relu(image, memory_config=ttnn.L1_MEMORY_CONFIG)
    for _ in range(3):
        x = ttnn.add(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
    return ttnn.to_torch(x).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
