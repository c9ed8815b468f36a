"""ResNet-50 in TTNN: batch 16, 224 x 224, bfloat8_b activations sharded over the cores' L1, random weights.

    ssinghal exec --board n150 -- python examples/ports/resnet50.py
    ssinghal exec --board n150 -- python examples/ports/resnet50.py --batch 20           # does not fit: TTNN's own error
    ssinghal exec --board n150 -- python examples/ports/resnet50.py --batch 20 --fits    # the change that makes it fit

The order of the operations, their shapes, dtypes, shard shapes and grids are those that a tuned port of this network was
recorded to use on a Wormhole (8 x 8 cores), operation by operation; the code is our own. What to take from it:

* the image is folded, so that the 7x7 convolution of stride 2 on 3 channels is a 4x4 one of stride 1 on 16 channels;
* stages 1 and 2 (large maps, few channels) are height sharded, stages 3 and 4 (small maps, many channels) block sharded;
* a convolution frees its input (``deallocate_activation``) unless the residual addition still needs it;
* ``conv2d`` returns the prepared weights: the first run prepares them, later runs reuse them;
* where program buffers and tensors do not fit together, ``act_block_h_override`` has the core compute its rows in parts.

Grids are computed from the device, so that the program also runs on a Blackhole (``--board p150``).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import torch
import ttnn

TILE = 32
IMAGE = 224
CLASSES = 1000
FOLDED = (IMAGE + 2 * 3) // 2
"""Rows and columns of the image, padded by 3 on each side, after folding 2 x 2 pixels into channels."""
FOLDED_CHANNELS = 16
"""4 channels (3 and one of padding) of 2 x 2 pixels."""
L1_SMALL_BYTES = 24_576
"""Region of the index tables of convolutions and pools; a batch of 16 uses 7,264 B of it."""
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels of the 3x3 convolutions, number of blocks, stride of the first block."""
EXPANSION = 4
DOUBLE_BUFFERED = {"enable_act_double_buffer": True, "enable_weights_double_buffer": True}
REUSED = {"enable_activation_reuse": True}
RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)


@dataclass
class Conv:
    """A convolution with its weights, which are on the host until the first run has prepared them."""

    in_channels: int
    out_channels: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    relu: bool = True
    parts: int = 1
    """A core computes its rows in at least so many parts: the more, the smaller the program buffers."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of ``ttnn.Conv2dConfig`` for this convolution alone."""
    weight: Any = field(init=False)
    bias: Any = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.out_channels, self.in_channels, self.kernel, self.kernel)
        self.weight = ttnn.from_torch(torch.randn(shape), dtype=ttnn.float32)
        self.bias = ttnn.from_torch(torch.randn(1, 1, 1, self.out_channels), dtype=ttnn.float32)


@dataclass
class Block:
    """A bottleneck: 1x1, 3x3, 1x1, and the input or its projection added."""

    reduce: Conv
    spatial: Conv
    expand: Conv
    project: Conv | None


@dataclass
class Map:
    """Activations as [1, 1, batch * side * side, channels]."""

    tensor: Any
    side: int


def stage_blocks(in_channels: int, channels: int, blocks: int, stride: int) -> list[Block]:
    """A stage on random weights, with the options of its convolutions."""
    out_channels = channels * EXPANSION
    spatial = {**DOUBLE_BUFFERED, "full_inner_dim": True} if channels >= 256 else DOUBLE_BUFFERED
    project = DOUBLE_BUFFERED if channels >= 256 else {"enable_act_double_buffer": True}
    made = []
    for index in range(blocks):
        first = index == 0
        made.append(
            Block(
                reduce=Conv(in_channels, channels),
                spatial=Conv(channels, channels, 3, stride if first else 1, 1, options=spatial),
                expand=Conv(channels, out_channels, relu=False),
                project=Conv(in_channels, out_channels, stride=stride, relu=False, options=project) if first else None,
            )
        )
        in_channels = out_channels
    if channels == 64:
        made[0].spatial.options = REUSED
        for block in made[1:]:
            block.spatial.parts = 2
    return made


class ResNet50:
    def __init__(self, device: Any, batch: int, fits: bool = False) -> None:
        self.device = device
        self.batch = batch
        self.grid = device.compute_with_storage_grid_size()
        self.compute = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, packer_l1_acc=True
        )
        self.stem = Conv(FOLDED_CHANNELS, 64, kernel=4, parts=2, options={**REUSED, "reallocate_halo_output": True})
        self.stages: list[list[Block]] = []
        in_channels = 64
        for channels, blocks, stride in STAGES:
            self.stages.append(stage_blocks(in_channels, channels, blocks, stride))
            in_channels = channels * EXPANSION
        if fits:
            self.compute_in_parts()
        self.classifier = self.on_device(torch.randn(1, 1, in_channels, CLASSES))
        self.classifier_bias = self.on_device(torch.randn(1, 1, 1, CLASSES))

    def compute_in_parts(self) -> None:
        """What a batch of 20 needs on a Wormhole: smaller program buffers in the 3x3 convolutions and in one projection."""
        for stage in self.stages:
            for block in stage:
                block.spatial.parts = 2
        project = self.stages[1][0].project
        assert project is not None
        project.parts = 9  # one row of tiles at a time

    def on_device(self, values: torch.Tensor) -> Any:
        return ttnn.to_device(ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT), self.device)

    # Sharding

    def height_sharded(self, rows: int, channels: int, cores: int) -> Any:
        shard = ttnn.ShardSpec(
            ttnn.num_cores_to_corerangeset(cores, self.grid, row_wise=True),
            [-(-rows // cores), channels],
            ttnn.ShardOrientation.ROW_MAJOR,
        )
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)

    def width_sharded(self, rows: int, channels: int, cores: int) -> Any:
        shard = ttnn.ShardSpec(
            ttnn.num_cores_to_corerangeset(cores, self.grid, row_wise=True),
            [-(-rows // TILE) * TILE, channels // cores],
            ttnn.ShardOrientation.ROW_MAJOR,
        )
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, shard)

    def block_sharded(self, rows: int, channels: int) -> Any:
        """Channels over 8 columns of cores, rows of tiles over as many rows of cores as divide them."""
        columns, tiles = 8, -(-rows // TILE)
        height = even_share(tiles, self.grid.y)
        if height <= self.grid.y // 2:  # the last row of cores then has fewer
            height = self.grid.y
        cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, height - 1))})
        shard = ttnn.ShardSpec(cores, [-(-tiles // height) * TILE, channels // columns], ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, shard)

    # Layers

    def convolve(self, conv: Conv, x: Map, layout: Any, keep_input: bool = False) -> Map:
        options = {"reallocate_halo_output": False, **conv.options}
        if conv.parts > 1:
            options["act_block_h_override"] = self.rows_of_part(conv, x)
        config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b,
            activation=RELU if conv.relu else None,
            deallocate_activation=not keep_input,
            shard_layout=layout,
            **options,
        )
        tensor, (side, _), (conv.weight, conv.bias) = ttnn.conv2d(
            input_tensor=x.tensor,
            weight_tensor=conv.weight,
            bias_tensor=conv.bias,
            device=self.device,
            in_channels=conv.in_channels,
            out_channels=conv.out_channels,
            batch_size=self.batch,
            input_height=x.side,
            input_width=x.side,
            kernel_size=(conv.kernel, conv.kernel),
            stride=(conv.stride, conv.stride),
            padding=(conv.padding, conv.padding),
            dtype=ttnn.bfloat8_b,
            conv_config=config,
            compute_config=self.compute,
            return_output_dim=True,
            return_weights_and_bias=True,
        )
        return Map(tensor, side)

    def rows_of_part(self, conv: Conv, x: Map) -> int:
        side = (x.side + 2 * conv.padding - conv.kernel) // conv.stride + 1
        cores = x.tensor.memory_config().shard_spec.grid.num_cores()
        tiles = ceil_div(ceil_div(self.batch * side * side, cores), TILE)
        return even_share(tiles, max(1, tiles // conv.parts)) * TILE

    def bottleneck(self, block: Block, x: Map, layout: Any) -> Map:
        y = self.convolve(block.reduce, x, layout, keep_input=True)
        y = self.convolve(block.spatial, y, layout)
        y = self.convolve(block.expand, y, layout)
        if block.project is not None:
            x = self.convolve(block.project, x, layout)
        y.tensor = ttnn.add_(y.tensor, x.tensor, activations=[RELU])
        ttnn.deallocate(x.tensor)
        return y

    def fold(self, image: Any) -> Map:
        """NCHW to [1, 1, batch * 115 * 115, 16]; frees the image."""
        rows = self.batch * FOLDED * FOLDED
        cores = self.cores
        folded = ttnn.fold(
            image,
            2,
            2,
            use_transpose_as_fold=True,
            padding=[3, 3, 3, 3, 0, 1],
            grid_size=ttnn.num_cores_to_corerangeset(cores, self.grid, row_wise=True),
            override_memory_config=self.height_sharded(rows, FOLDED_CHANNELS, cores),
        )
        folded = ttnn.reshape(folded, (1, 1, rows, FOLDED_CHANNELS))
        ttnn.deallocate(image)
        return Map(folded, FOLDED)

    def pool(self, x: Map) -> Map:
        """Maximum over 3x3, then tiles of bfloat8_b over as many cores as share them evenly."""
        x.tensor = ttnn.max_pool2d(
            input_tensor=x.tensor,
            batch_size=self.batch,
            input_h=x.side,
            input_w=x.side,
            channels=64,
            kernel_size=[3, 3],
            stride=[2, 2],
            padding=[1, 1],
            dilation=[1, 1],
        )
        side = x.side // 2
        rows = self.batch * side * side
        x.tensor = ttnn.to_memory_config(x.tensor, self.height_sharded(rows, 64, even_share(rows // TILE, self.cores)))
        x.tensor = ttnn.to_layout(x.tensor, ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b)
        return Map(x.tensor, side)

    def classify(self, x: Map) -> Any:
        features = x.tensor.shape[-1]
        x.tensor = ttnn.to_memory_config(x.tensor, self.width_sharded(self.batch * x.side**2, features, features // TILE))
        x.tensor = ttnn.avg_pool2d(
            input_tensor=x.tensor,
            batch_size=self.batch,
            input_h=x.side,
            input_w=x.side,
            channels=features,
            kernel_size=[x.side, x.side],
            stride=[1, 1],
            padding=[0, 0],
            dtype=ttnn.bfloat8_b,
            output_layout=ttnn.TILE_LAYOUT,
        )
        cores = -(-CLASSES // TILE)
        x.tensor = ttnn.to_memory_config(x.tensor, self.width_sharded(self.batch, features, cores))
        x.tensor = ttnn.linear(
            x.tensor,
            self.classifier,
            bias=self.classifier_bias,
            program_config=ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
                compute_with_storage_grid_size=ttnn.CoreCoord(8, cores // 8),
                in0_block_w=2,
                out_subblock_h=1,
                out_subblock_w=1,
                per_core_M=1,
                per_core_N=1,
                fuse_batch=True,
                mcast_in0=True,
            ),
            compute_kernel_config=self.compute,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            dtype=ttnn.bfloat8_b,
        )
        end = (0, 0, self.batch - 1, CLASSES - 1)
        x.tensor = ttnn.untilize_with_unpadding(x.tensor, end, memory_config=ttnn.L1_MEMORY_CONFIG)
        return ttnn.reshape(x.tensor, (self.batch, 1, 1, CLASSES))

    @property
    def cores(self) -> int:
        return int(self.grid.x * self.grid.y)

    def input_config(self) -> Any:
        """Rows of the image (batch * 3 * 224 of them, 224 wide) over the cores."""
        rows = self.batch * 3 * IMAGE
        return self.height_sharded(rows, IMAGE, self.batch * 3)

    def __call__(self, image: Any) -> Any:
        """Logits [batch, 1, 1, 1000] in L1, of an image [batch, 3, 224, 224] in L1, which is freed."""
        x = self.fold(image)
        x = self.convolve(self.stem, x, ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
        x = self.pool(x)
        for index, stage in enumerate(self.stages):
            layout = ttnn.TensorMemoryLayout.HEIGHT_SHARDED if index < 2 else ttnn.TensorMemoryLayout.BLOCK_SHARDED
            if index >= 2:
                rows, channels = x.tensor.shape[-2], x.tensor.shape[-1]
                x.tensor = ttnn.to_memory_config(x.tensor, self.block_sharded(rows, channels))
            for block in stage:
                x = self.bottleneck(block, x, layout)
        return self.classify(x)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def even_share(items: int, most: int) -> int:
    """The largest number, at most ``most``, that divides the items."""
    return max(share for share in range(1, most + 1) if items % share == 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-50 on random weights")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3, help="the first run prepares the weights (default 3)")
    parser.add_argument("--fits", action="store_true", help="compute in smaller parts, which a batch of 20 needs")
    arguments = parser.parse_args()
    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_BYTES)
    network = ResNet50(device, arguments.batch, arguments.fits)
    image = ttnn.from_torch(torch.randn(arguments.batch, 3, IMAGE, IMAGE), dtype=ttnn.bfloat16)
    for _ in range(arguments.runs):
        logits = network(image.to(device, network.input_config()))
    shape = tuple(ttnn.to_torch(logits).shape)
    del logits, network  # what they hold is freed before the device closes
    ttnn.close_device(device)
    print(f"resnet50: logits {shape}")


if __name__ == "__main__":
    main()
