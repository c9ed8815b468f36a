"""A class keeps what it was given long after its last use."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


class Model:
    def stem(self, x):
        self.input = x
        return ttnn.exp(x, memory_config=ttnn.L1_MEMORY_CONFIG)

    def body(self, x):
        for _ in range(4):
            x = ttnn.add(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
        return x


def main(device):
    model = Model()
    result = model.body(model.stem(tensor(device, 4096, 1024)))
    ttnn.deallocate(model.input)
    return ttnn.to_torch(result).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
