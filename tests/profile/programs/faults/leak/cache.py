"""A cache by pass, never read again, in DRAM."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


class Runner:
    cache = {}

    def step(self, x, number):
        self.cache[number] = ttnn.add(x, x, memory_config=ttnn.DRAM_MEMORY_CONFIG)


def main(device):
    x = tensor(device, 1024, 768, ttnn.DRAM_MEMORY_CONFIG)
    for number in range(6):
        Runner().step(x, number)
    ttnn.deallocate(x)


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
