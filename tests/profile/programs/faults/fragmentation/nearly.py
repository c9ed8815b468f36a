"""The same comb, and an allocation that just fits the largest block left."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


class Comb:
    def __init__(self, device, teeth):
        self.gaps, self.teeth = [], []
        for _ in range(teeth):
            self.gaps.append(tensor(device, 32 * 100, 2048))
            self.teeth.append(tensor(device, 32 * 2, 2048))

    def open(self):
        while self.gaps:
            ttnn.deallocate(self.gaps.pop())


def main(device):
    comb = Comb(device, 6)
    comb.open()
    x = tensor(device, 32 * 100, 2048)
    for tooth in comb.teeth:
        ttnn.deallocate(tooth)
    return ttnn.to_torch(x).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
