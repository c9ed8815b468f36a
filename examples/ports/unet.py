"""A shallow U-Net in TTNN: four images of 1056 x 160 as four groups of channels, height sharded in L1, random weights.

    ssinghal exec --board n150 -- python examples/ports/unet.py
    ssinghal exec --board n150 -- python examples/ports/unet.py --scale 2           # does not fit: TTNN's own error
    ssinghal exec --board n150 -- python examples/ports/unet.py --scale 2 --fits    # the change that makes it fit

The order of the operations, their shapes, dtypes, shard shapes and grids are those that a tuned port of this network was
recorded to use on a Wormhole (8 x 8 cores), operation by operation; the code is our own. What to take from it:

* every convolution is grouped: the images lie beside each other in the channels, so that a row of a shard has all four;
* the images arrive with channels first and are turned on the device, into shards that are whole tiles also after a pool;
* smaller maps take fewer cores (63, 55, 42, 21): convolutions that reshard let ``conv2d`` choose;
* a map that is kept for the decoder is moved up in L1, so that the free space below it stays in one piece;
* maps are joined as rows, except at full size, where only tiles of bfloat8_b fit.

``--scale 2`` has images of twice as many rows. A shard then is twice as large, so each part that a core computes at a time is
half as large, and every halo is moved up, as is recorded of a few; the decoder still runs out of L1. ``--fits`` keeps the two
largest maps in DRAM and joins them there, from where ``conv2d`` reads them slice by slice.

Grids are computed from the device, so that the program also runs on a Blackhole (``--board p150``), where ``--scale 2`` fits.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import torch
import ttnn

TILE = 32
GROUPS = 4
HEIGHT, WIDTH = 1056, 160
IMAGE_CHANNELS = 4
"""Of one group: three, and one of padding."""
L1_SMALL_BYTES = 9_344
"""Region of the index tables of convolutions, pools and upsampling, which take 7,680 B of it."""
SHARDED = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
DOUBLE_BUFFER = {"enable_act_double_buffer": True}
REUSE = {"enable_activation_reuse": True}
MOVE_HALO = {"reallocate_halo_output": True}
RESHARD = {"reshard_if_not_optimal": True}


@dataclass
class Conv:
    """A grouped convolution with its weights, which are on the host until the first run has prepared them."""

    inputs: int
    outputs: int
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of ``ttnn.Conv2dConfig`` for this convolution alone."""
    parts: int = 1
    """A core computes its rows in at least so many parts: the more, the smaller the program buffers. 0: as conv2d chooses."""
    kernel: int = 3
    activation: Any = RELU
    dtype: Any = ttnn.bfloat8_b
    weight: Any = field(init=False)
    bias: Any = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.outputs, self.inputs // GROUPS, self.kernel, self.kernel)
        self.weight = ttnn.from_torch(torch.randn(shape), dtype=ttnn.float32)
        self.bias = ttnn.from_torch(torch.randn(1, 1, 1, self.outputs), dtype=ttnn.float32)


@dataclass
class Map:
    """Activations as [1, 1, height * width, channels]."""

    tensor: Any
    height: int
    width: int


class UNet:
    def __init__(self, device: Any, scale: int = 1, fits: bool = False) -> None:
        self.device = device
        self.scale = scale
        self.fits = fits
        self.grid = device.compute_with_storage_grid_size()
        self.compute = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, packer_l1_acc=False
        )
        self.encoder = [
            [Conv(GROUPS * IMAGE_CHANNELS, 64, REUSE), Conv(64, 64, DOUBLE_BUFFER, parts=7)],
            [Conv(64, 64, REUSE), Conv(64, 64, REUSE)],
            [Conv(64, 128, DOUBLE_BUFFER | RESHARD, parts=0), Conv(128, 128, DOUBLE_BUFFER)],
            [Conv(128, 128, DOUBLE_BUFFER | RESHARD, parts=0), Conv(128, 128, DOUBLE_BUFFER)],
        ]
        self.bottom = [Conv(128, 256, RESHARD, parts=0), Conv(256, 256)]
        self.decoder = [  # the first of a block reads the joined channels: those of the block below, and those that were kept
            [Conv(256 + 128, 128, MOVE_HALO), Conv(128, 128), Conv(128, 128)],
            [Conv(128 + 128, 128, DOUBLE_BUFFER | MOVE_HALO), *(Conv(128, 128, DOUBLE_BUFFER) for _ in range(2))],
            [Conv(128 + 64, 64, DOUBLE_BUFFER | MOVE_HALO, parts=7), Conv(64, 64, REUSE), Conv(64, 64, REUSE)],
            [Conv(64 + 64, 64, DOUBLE_BUFFER | MOVE_HALO, parts=21), *(Conv(64, 64, DOUBLE_BUFFER, parts=7) for _ in range(2))],
        ]
        self.mask = Conv(64, GROUPS, kernel=1, activation=None, dtype=ttnn.bfloat16)

    # Sharding

    def shards(self, rows: int) -> tuple[Any, int]:
        """Cores, and rows of each: whole tiles also after a pool, which leaves a quarter of the rows."""
        shard_rows = ceil_div(ceil_div(rows, self.grid.x * self.grid.y), 4 * TILE) * 4 * TILE
        return ttnn.num_cores_to_corerangeset(ceil_div(rows, shard_rows), self.grid, row_wise=True), shard_rows

    def input_config(self, rows: int) -> Any:
        """Of images with channels first: the same shards, turned."""
        cores, shard_rows = self.shards(rows)
        shard = ttnn.ShardSpec(cores, [GROUPS * IMAGE_CHANNELS, shard_rows], ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, shard)

    # Layers, each of which frees what it reads

    def convolve(self, conv: Conv, x: Map) -> Map:
        options = {"reallocate_halo_output": self.scale > 1, **conv.options}
        from_dram = is_in_dram(x.tensor)  # then conv2d takes slices that fit
        parts = conv.parts * self.scale**2
        if parts > 1 and not from_dram:
            options["act_block_h_override"] = rows_of_part(x.tensor, parts)
        config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b,
            activation=conv.activation,
            deallocate_activation=True,
            shard_layout=SHARDED,
            enable_weights_double_buffer=True,
            **options,
        )
        tensor, (conv.weight, conv.bias) = ttnn.conv2d(
            input_tensor=x.tensor,
            weight_tensor=conv.weight,
            bias_tensor=conv.bias,
            device=self.device,
            in_channels=conv.inputs,
            out_channels=conv.outputs,
            batch_size=1,
            input_height=x.height,
            input_width=x.width,
            kernel_size=(conv.kernel, conv.kernel),
            stride=(1, 1),
            padding=(conv.kernel // 2, conv.kernel // 2),
            groups=GROUPS,
            dtype=conv.dtype,
            conv_config=config,
            compute_config=self.compute,
            return_weights_and_bias=True,
        )
        if from_dram:
            tensor = ttnn.to_memory_config(tensor, height_sharded(*self.shards(x.height * x.width), conv.outputs))
        return Map(tensor, x.height, x.width)

    def keep(self, x: Map) -> Any:
        """Returns the map for the decoder: ``x`` itself, which is moved, or a copy in DRAM."""
        if self.fits and x.width >= WIDTH // 2:
            return ttnn.to_memory_config(x.tensor, ttnn.DRAM_MEMORY_CONFIG)
        x.tensor = ttnn.move(x.tensor)
        return x.tensor

    def pool(self, x: Map) -> Map:
        """Frees nothing: ``x`` may be kept."""
        tensor = ttnn.max_pool2d(
            input_tensor=x.tensor,
            batch_size=1,
            input_h=x.height,
            input_w=x.width,
            channels=x.tensor.shape[-1],
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[0, 0],
            dilation=[1, 1],
        )
        return Map(tensor, x.height // 2, x.width // 2)

    def upsample(self, x: Map) -> Map:
        channels = x.tensor.shape[-1]
        image = ttnn.reshape(x.tensor, (1, x.height, x.width, channels))
        tensor = ttnn.upsample(image, 2)
        ttnn.deallocate(image)
        tensor = ttnn.reshape(tensor, (1, 1, 4 * x.height * x.width, channels))
        return Map(tensor, 2 * x.height, 2 * x.width)

    def join(self, x: Map, kept: Any) -> Map:
        """Twice the size of ``x``, with the channels of the map of that size that was kept."""
        x.tensor = row_major(x.tensor)
        if is_in_dram(kept):
            x = self.upsample(x)
            x.tensor = ttnn.to_memory_config(tiled(x.tensor), ttnn.DRAM_MEMORY_CONFIG)
            x.tensor = ttnn.concat([x.tensor, kept], dim=3)
            return x
        kept = row_major(kept)
        x = self.upsample(x)
        if x.width == WIDTH:
            kept = tiled(kept)
            upsampled = tiled(resharded(x.tensor, kept))
            joined = concat(upsampled, kept)
            free(kept, upsampled)
            x.tensor = ttnn.move(joined)
        else:
            upsampled = resharded(x.tensor, kept)
            x.tensor = concat(upsampled, kept)
            free(upsampled, kept)
        return x

    def __call__(self, images: Any, height: int, width: int) -> Any:
        """Masks [1, 1, 4, height * width] in L1, of images [1, 1, 16, height * width] in L1, which are freed."""
        x = Map(ttnn.experimental.convert_to_hwc(images), height, width)
        ttnn.deallocate(images)
        kept = []
        for block in self.encoder:
            for conv in block:
                x = self.convolve(conv, x)
            kept.append(self.keep(x))
            x = self.pool(x)
        for conv in self.bottom:
            x = self.convolve(conv, x)
        for block in self.decoder:
            x = self.join(x, kept.pop())
            for conv in block:
                x = self.convolve(conv, x)
        x = self.convolve(self.mask, x)
        masks = ttnn.experimental.convert_to_chw(x.tensor)
        ttnn.deallocate(x.tensor)
        return masks


def height_sharded(cores: Any, shard_rows: int, channels: int) -> Any:
    shard = ttnn.ShardSpec(cores, [shard_rows, channels], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(SHARDED, ttnn.BufferType.L1, shard)


def sharded_as(tensor: Any, channels: int) -> Any:
    """The rows of its shards on the same cores, with so many channels."""
    shard = tensor.memory_config().shard_spec
    return height_sharded(shard.grid, shard.shape[0], channels)


def row_major(tensor: Any) -> Any:
    result = ttnn.to_layout(tensor, ttnn.ROW_MAJOR_LAYOUT)
    ttnn.deallocate(tensor)
    return result


def tiled(tensor: Any) -> Any:
    result = ttnn.to_layout(tensor, ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b)
    ttnn.deallocate(tensor)
    return result


def resharded(tensor: Any, like: Any) -> Any:
    result = ttnn.reshard(tensor, sharded_as(like, tensor.shape[-1]))
    ttnn.deallocate(tensor)
    return result


def concat(upsampled: Any, kept: Any) -> Any:
    return ttnn.concat([upsampled, kept], dim=3, memory_config=sharded_as(kept, upsampled.shape[-1] + kept.shape[-1]))


def free(*tensors: Any) -> None:
    for tensor in tensors:
        ttnn.deallocate(tensor)


def is_in_dram(tensor: Any) -> bool:
    return bool(tensor.memory_config().buffer_type == ttnn.BufferType.DRAM)


def rows_of_part(tensor: Any, parts: int) -> int:
    """Rows of whole tiles that divide the shard's into at least so many parts, if it has as many tiles."""
    tiles = ceil_div(tensor.memory_config().shard_spec.shape[0], TILE)
    return TILE * max(share for share in range(1, max(1, tiles // parts) + 1) if tiles % share == 0)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def main() -> None:
    parser = argparse.ArgumentParser(description="A shallow U-Net on random weights")
    parser.add_argument("--scale", type=int, default=1, help="times as many rows of the images (default 1)")
    parser.add_argument("--runs", type=int, default=1, help="the first run prepares the weights (default 1)")
    parser.add_argument("--fits", action="store_true", help="keep the largest maps in DRAM, which a scale of 2 needs")
    arguments = parser.parse_args()
    height = HEIGHT * arguments.scale
    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_BYTES * arguments.scale)
    network = UNet(device, arguments.scale, arguments.fits)
    images = ttnn.from_torch(torch.randn(1, 1, GROUPS * IMAGE_CHANNELS, height * WIDTH), dtype=ttnn.bfloat16)
    for _ in range(arguments.runs):
        masks = network(images.to(device, network.input_config(height * WIDTH)), height, WIDTH)
        shape = tuple(ttnn.to_torch(masks).shape)
        ttnn.deallocate(masks)
    del network  # its weights are freed before the device closes
    ttnn.close_device(device)
    print(f"unet: masks {shape}")


if __name__ == "__main__":
    main()
