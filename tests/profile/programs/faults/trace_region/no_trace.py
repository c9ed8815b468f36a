"""A trace region of 16 MiB and no trace."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def main(device):
    return ttnn.to_torch(ttnn.relu(tensor(device, 1024, 1024))).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0, trace_region_size=16 * 1024 * 1024)
    main(device)
    ttnn.close_device(device)
