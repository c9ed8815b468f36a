"""Four long rows on 64 banks."""

import ttnn


class Table:
    def __init__(self, device, rows):
        self.rows = ttnn.empty(
            [1, 1, rows, 65_536],
            dtype=ttnn.float32,
            layout=ttnn.ROW_MAJOR_LAYOUT,
            device=device,
            memory_config=ttnn.L1_MEMORY_CONFIG,
        )


def main(device):
    return ttnn.to_torch(Table(device, 4).rows).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
