"""A region of 64 KiB for one max pool."""

import ttnn


def main(device):
    x = ttnn.empty([1, 1, 4096, 64], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    y = ttnn.max_pool2d(x, 1, 64, 64, 64, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceil_mode=False)
    return ttnn.to_torch(y).shape


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0, l1_small_size=65536)
    main(device)
    ttnn.close_device(device)
