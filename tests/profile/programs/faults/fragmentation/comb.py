"""Every second of ten tensors is freed: none of the holes takes what they take together."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def main(device):
    tensors = [tensor(device, 32 * (7 if number % 2 else 60), 2048) for number in range(10)]
    for large in tensors[::2]:
        ttnn.deallocate(large)
    wanted = tensor(device, 32 * 400, 2048)
    return ttnn.to_torch(wanted).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
