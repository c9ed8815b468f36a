"""A 3 x 3 convolution that frees its input; its halo table stays in L1_SMALL with the program."""

import torch
import ttnn


def main(device):
    config = ttnn.Conv2dConfig(deallocate_activation=True, reallocate_halo_output=False)
    sharded = ttnn.create_sharded_memory_config((1024, 32), ttnn.CoreGrid(y=4, x=8), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.empty([1, 1, 1024, 32], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=sharded)
    weight = ttnn.from_torch(torch.zeros(32, 32, 3, 3), dtype=ttnn.bfloat16)
    sizes = {"in_channels": 32, "out_channels": 32, "batch_size": 1, "input_height": 32, "input_width": 32}
    window = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
    y = ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, conv_config=config, **sizes, **window)
    ttnn.deallocate(y)


if __name__ == "__main__":
    device = ttnn.open_device(device_id=0, l1_small_size=16384)
    main(device)
    ttnn.close_device(device)
