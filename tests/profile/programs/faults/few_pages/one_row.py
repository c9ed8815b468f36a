"""One long row is one page: one bank holds all of it, and every bank books as much."""

import ttnn


def main(device):
    x = ttnn.empty(
        [1, 1, 1, 200_000],
        dtype=ttnn.bfloat16,
        layout=ttnn.ROW_MAJOR_LAYOUT,
        device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG,
    )
    return ttnn.to_torch(x).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
