"""A residual block by functions: what is added at the end is needed until then."""

import ttnn


def tensor(device, rows, columns, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def branch(x):
    inner = ttnn.gelu(x, memory_config=ttnn.L1_MEMORY_CONFIG)
    result = ttnn.neg(inner, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.deallocate(inner)
    return result


def block(x):
    inner = branch(x)
    result = ttnn.add(x, inner, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.deallocate(inner)
    ttnn.deallocate(x)
    return result


def main(device):
    x = tensor(device, 512, 1024)
    for _ in range(4):
        x = block(x)
    result = ttnn.to_torch(x).shape
    ttnn.deallocate(x)
    return result


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0)
    main(device)
    ttnn.close_device(device)
