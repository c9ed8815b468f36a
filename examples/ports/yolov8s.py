"""YOLOv8s at batch 1, 640 x 640, with its detection head: boxes and class scores of 8,400 anchors.

    ssinghal exec --board n150 -- python examples/ports/yolov8s.py

An own program with random weights. Its shapes, dtypes, shard layouts and core grids are those recorded from a tuned port
that is known to run on cards (426 operations, an L1_SMALL region of 24,576 B). Maps are [1, 1, rows, channels], mostly
bfloat8_b: height shards where they are large, block shards at 20 x 20, interleaved in L1 where branches meet.
"""

from typing import Any

import torch
import ttnn

L1_SMALL_BYTES = 24_576
SIDE, CLASSES, BINS = 640, 80, 16
HEIGHT, BLOCK = ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.BLOCK_SHARDED
GRID = ttnn.CoreGrid(y=8, x=8)


def height_shards(rows: int, columns: int, cores: int) -> Any:
    grid = ttnn.num_cores_to_corerangeset(cores, ttnn.CoreCoord(GRID.x, GRID.y), row_wise=True)
    shard = ttnn.ShardSpec(grid, [rows, columns], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(HEIGHT, ttnn.BufferType.L1, shard)


def on_host(*shape: int) -> Any:
    return ttnn.from_torch(torch.randn(*shape) * 0.02, dtype=ttnn.float32)


class Conv:
    """A convolution with SiLU; its weights go to the device, prepared, at the first call."""

    def __init__(
        self,
        device: Any,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        layout: Any = HEIGHT,
        bias: bool = True,
        **config: Any,
    ) -> None:
        self.device, self.inputs, self.outputs = device, inputs, outputs
        self.kernel, self.stride = kernel, stride
        self.weight: Any = on_host(outputs, inputs, kernel, kernel)
        self.bias: Any = on_host(1, 1, 1, outputs) if bias else None
        activation = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
        defaults = {"activation": activation, "weights_dtype": ttnn.bfloat8_b, "shard_layout": layout}
        defaults |= {"enable_act_double_buffer": True, "reallocate_halo_output": False}
        self.config = ttnn.Conv2dConfig(**{**defaults, **config})

    def __call__(self, x: Any, side: int, width: int = 0) -> Any:
        result, (self.weight, self.bias) = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=self.weight,
            bias_tensor=self.bias,
            device=self.device,
            in_channels=self.inputs,
            out_channels=self.outputs,
            batch_size=1,
            input_height=side,
            input_width=width or side,
            kernel_size=(self.kernel, self.kernel),
            stride=(self.stride, self.stride),
            padding=(self.kernel // 2, self.kernel // 2),
            conv_config=self.config,
            dtype=ttnn.bfloat8_b,
            return_weights_and_bias=True,
        )
        return result


class Bottleneck:
    def __init__(self, device: Any, channels: int, layout: Any, shortcut: bool, first_of_block: bool) -> None:
        self.first = Conv(device, channels, channels, 3, layout=layout)
        self.second = Conv(device, channels, channels, 3, layout=layout)
        self.shortcut, self.first_of_block = shortcut, first_of_block

    def __call__(self, x: Any, side: int) -> Any:
        inner = self.first(x, side)
        result = self.second(inner, side)
        ttnn.deallocate(inner)
        if self.first_of_block:
            x = ttnn.to_layout(x, ttnn.TILE_LAYOUT)  # for row-major halves; these are tiles already, so nothing moves
        if self.shortcut:
            result = ttnn.add(x, result, memory_config=x.memory_config())
        return result


class C2f:
    """Two halves by two convolutions of the same map, bottlenecks on the second, and a convolution over all parts."""

    def __init__(
        self,
        device: Any,
        inputs: int,
        outputs: int,
        repeats: int = 1,
        shortcut: bool = False,
        layout: Any = HEIGHT,
        split_layout: Any = HEIGHT,
    ) -> None:
        half = outputs // 2
        self.halves = [Conv(device, inputs, half, layout=split_layout) for _ in range(2)]
        self.bottlenecks = [Bottleneck(device, half, layout, shortcut, i == 0) for i in range(repeats)]
        self.join = Conv(device, (2 + repeats) * half, outputs, layout=layout)
        self.interleaved = layout is BLOCK

    def __call__(self, x: Any, side: int) -> Any:
        parts = [half(x, side) for half in self.halves]
        if self.interleaved:
            parts[0] = ttnn.to_memory_config(parts[0], ttnn.L1_MEMORY_CONFIG)
            parts[1] = ttnn.to_memory_config(parts[1], ttnn.L1_MEMORY_CONFIG)
        for bottleneck in self.bottlenecks:
            part = bottleneck(parts[-1], side)
            if self.interleaved and part.is_sharded():
                part = ttnn.to_memory_config(part, ttnn.L1_MEMORY_CONFIG)
            parts.append(part)
            del part
        joined = concat_channels(parts)
        for part in parts:
            ttnn.deallocate(part)
        return self.join(joined, side)


def concat_channels(parts: list[Any]) -> Any:
    """Shards beside each other in the same cores, or interleaved where the parts are."""
    config = parts[0].memory_config()
    if config.shard_spec is None:
        return ttnn.concat(parts, dim=3, memory_config=ttnn.L1_MEMORY_CONFIG)
    rows = config.shard_spec.shape[0]
    columns = sum(part.memory_config().shard_spec.shape[1] for part in parts)
    shard = ttnn.ShardSpec(config.shard_spec.grid, [rows, columns], config.shard_spec.orientation)
    return ttnn.concat(parts, dim=3, memory_config=ttnn.MemoryConfig(HEIGHT, ttnn.BufferType.L1, shard))


def concat_resharded(parts: list[Any]) -> Any:
    """Row-major maps of any placement, spread over all 64 cores, concatenated there and interleaved again."""
    rows = -(-parts[0].shape[2] // 64)
    sharded = [ttnn.to_memory_config(part, height_shards(rows, part.shape[3], 64)) for part in parts]
    joined = concat_channels(sharded)
    return ttnn.sharded_to_interleaved(joined, ttnn.L1_MEMORY_CONFIG)


def row_major(x: Any) -> Any:
    return ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)


def interleave(x: Any) -> Any:
    return ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG)


def rows_on_cores(x: Any, side: int) -> Any:
    """A square map in height shards, one row of it a core, as `upsample` takes it."""
    x = ttnn.reshape(x, (1, side, side, x.shape[3]))
    return ttnn.interleaved_to_sharded(x, height_shards(side, x.shape[3], side))


def flat(x: Any) -> Any:
    return ttnn.reshape(x, (1, 1, x.shape[1] * x.shape[2], x.shape[3]))


class Sppf:
    """Three max pools of five by five, one after the other, and all four maps side by side."""

    def __init__(self, device: Any, channels: int) -> None:
        self.reduce = Conv(device, channels, channels // 2, layout=BLOCK)
        self.join = Conv(device, 2 * channels, channels, layout=BLOCK)

    def __call__(self, x: Any, side: int) -> Any:
        x = self.reduce(x, side)
        x = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
        x = row_major(x)
        maps = [x]
        for _ in range(3):
            pooled = ttnn.max_pool2d(
                input_tensor=maps[-1],
                batch_size=1,
                input_h=side,
                input_w=side,
                channels=x.shape[3],
                kernel_size=[5, 5],
                stride=[1, 1],
                padding=[2, 2],
                dilation=[1, 1],
                applied_shard_scheme=None if maps[-1].is_sharded() else BLOCK,
            )
            maps.append(pooled)
        joined = concat_resharded(maps)
        for one in maps:
            ttnn.deallocate(one)
        return self.join(joined, side)


class Branch:
    def __init__(self, device: Any, inputs: int, hidden: int, outputs: int) -> None:
        self.first = Conv(device, inputs, hidden, 3)
        self.second = Conv(device, hidden, hidden, 3)
        self.last = Conv(device, hidden, outputs, activation=None)

    def __call__(self, x: Any, side: int) -> Any:
        hidden = self.first(x, side)
        hidden = self.second(hidden, side)
        result = self.last(hidden, side)
        return interleave(result)


class Detect:
    """Box distributions and class scores of three maps, then boxes in pixels."""

    def __init__(self, device: Any, channels: tuple[int, ...]) -> None:
        self.boxes = [Branch(device, c, 64, 4 * BINS) for c in channels]
        self.classes = [Branch(device, c, 128, CLASSES) for c in channels]
        self.expectation = Conv(device, BINS, 1, bias=False, activation=None)
        sides = [SIDE // stride for stride in (8, 16, 32)]
        centres = [torch.cartesian_prod(torch.arange(s) + 0.5, torch.arange(s) + 0.5).T.flip(0) for s in sides]
        strides = [torch.full((1, s * s), SIDE / s) for s in sides]
        options = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
        self.anchors = ttnn.from_torch(torch.cat(centres, 1)[None], **options)
        self.strides = ttnn.from_torch(torch.cat(strides, 1), **options)

    def distances(self, x: Any, anchors: int) -> Any:
        """The expected distance of each side of a box: a softmax over 16 bins, weighted by a 1 x 1 convolution."""
        x = ttnn.reshape(x, (1, 4, BINS, anchors))
        x = ttnn.softmax(x, dim=2)
        x = ttnn.permute(x, (0, 1, 3, 2))
        x = self.expectation(x, 4, anchors)
        x = interleave(x)
        x = ttnn.permute(x, (0, 3, 1, 2))
        x = ttnn.reshape(x, (1, 1, 4, anchors))
        return ttnn.reshape(x, (1, 4, anchors))

    def corners_to_boxes(self, distances: Any, anchors: Any) -> Any:
        before, after = ttnn.split(distances, 2, 1)
        low = ttnn.subtract(anchors, before)
        high = ttnn.add(anchors, after)
        centre = ttnn.add(low, high)
        centre = ttnn.div(centre, 2)
        size = ttnn.subtract(high, low)
        return ttnn.concat([centre, size], 1, memory_config=ttnn.L1_MEMORY_CONFIG)

    def __call__(self, maps: list[Any]) -> Any:
        levels = []
        for level, x in enumerate(maps):
            side = SIDE // (8 << level)
            boxes = self.boxes[level](x, side)
            classes = self.classes[level](x, side)
            levels.append(ttnn.concat((boxes, classes), -1, memory_config=ttnn.L1_MEMORY_CONFIG))
        rows = [ttnn.reshape(x, (1, x.shape[2], x.shape[3])) for x in levels]
        predictions = ttnn.concat(rows, 1, memory_config=ttnn.L1_MEMORY_CONFIG)
        predictions = ttnn.permute(predictions, (0, 2, 1))
        anchors = predictions.shape[2]
        bins = ttnn.slice(predictions, [0, 0, 0], [1, 4 * BINS, anchors])
        scores = ttnn.slice(predictions, [0, 4 * BINS, 0], [1, 4 * BINS + CLASSES, anchors])
        distances = self.distances(bins, anchors)
        points = ttnn.to_memory_config(self.anchors, ttnn.L1_MEMORY_CONFIG, dtype=ttnn.bfloat8_b)
        decoded = self.corners_to_boxes(distances, points)
        strides = ttnn.to_memory_config(self.strides, ttnn.L1_MEMORY_CONFIG, dtype=ttnn.bfloat8_b)
        decoded = ttnn.multiply(decoded, strides, dtype=ttnn.bfloat8_b)
        return ttnn.concat([decoded, ttnn.sigmoid(scores)], 1, memory_config=ttnn.L1_MEMORY_CONFIG)


class Yolo:
    def __init__(self, device: Any) -> None:
        self.stem = Conv(device, 3, 32, 3, 2, deallocate_activation=True)
        self.down2 = Conv(device, 32, 64, 3, 2)
        self.c2f2 = C2f(device, 64, 64, 1, shortcut=True)
        self.down3 = Conv(device, 64, 128, 3, 2)
        self.c2f3 = C2f(device, 128, 128, 2, shortcut=True)
        self.down4 = Conv(device, 128, 256, 3, 2)
        self.c2f4 = C2f(device, 256, 256, 2, shortcut=True)
        self.down5 = Conv(device, 256, 512, 3, 2, BLOCK)
        self.c2f5 = C2f(device, 512, 512, 1, shortcut=True, layout=BLOCK, split_layout=BLOCK)
        self.sppf = Sppf(device, 512)
        self.up4 = C2f(device, 768, 256)
        self.up3 = C2f(device, 384, 128)
        self.again4 = Conv(device, 128, 128, 3, 2, BLOCK)
        self.out4 = C2f(device, 384, 256)
        self.again5 = Conv(device, 256, 256, 3, 2, BLOCK)
        self.out5 = C2f(device, 768, 512, layout=BLOCK)
        self.detect = Detect(device, (128, 256, 512))

    def prepare_image(self, image: Any) -> Any:
        """Channels padded to 16 and put last."""
        padded = ttnn.pad(image, ((0, 0), (0, 13), (0, 0), (0, 0)), value=0.0)
        last = ttnn.permute(padded, (0, 2, 3, 1))
        ttnn.deallocate(padded)
        ttnn.deallocate(image)
        last = ttnn.reallocate(last)
        return ttnn.reshape(last, (1, 1, SIDE * SIDE, 16))

    def stage(self, down: Conv, block: C2f, x: Any, side: int, keep: bool = False) -> Any:
        """Half the side, then a block; the input is freed unless a later concatenation needs it."""
        halved = down(x, side)
        if not keep:
            ttnn.deallocate(x)
        result = block(halved, side // 2)
        ttnn.deallocate(halved)
        return result

    def backbone(self, image: Any) -> list[Any]:
        x = self.stem(self.prepare_image(image), 640)
        x = self.stage(self.down2, self.c2f2, x, 320)
        third = self.stage(self.down3, self.c2f3, x, 160)
        fourth = self.stage(self.down4, self.c2f4, third, 80, keep=True)
        fourth = interleave(fourth)
        x = self.stage(self.down5, self.c2f5, fourth, 40, keep=True)
        fifth = self.sppf(x, 20)
        ttnn.deallocate(x)
        fifth = ttnn.to_memory_config(fifth, ttnn.L1_MEMORY_CONFIG)
        return [third, fourth, fifth]

    def merge(self, block: C2f, x: Any, skip: Any, side: int, late: bool = False) -> Any:
        """A block on both maps; at 40 x 40, where there is room, `x` and the joined map are freed after it (`late`)."""
        joined = concat_resharded([x, skip])
        ttnn.deallocate(skip)
        if not late:
            ttnn.deallocate(x)
        result = block(joined, side)
        if block.interleaved:
            result = interleave(result)
        ttnn.deallocate(joined)
        if late:
            ttnn.deallocate(x)
        return result

    def neck(self, maps: list[Any]) -> list[Any]:
        """Takes the maps out of the list, so that each is freed where its name is bound anew."""
        third, fourth, fifth = maps
        maps.clear()
        up = rows_on_cores(row_major(fifth), 20)
        up = ttnn.upsample(up, 2)
        up = flat(up)
        fourth = row_major(fourth)
        x = self.merge(self.up4, up, fourth, 40, late=True)
        x = interleave(x)
        x = row_major(x)
        fourth = ttnn.clone(x)
        x = rows_on_cores(x, 40)
        x = ttnn.upsample(x, 2)
        up = flat(x)
        del x
        third = row_major(third)
        x = self.merge(self.up3, up, third, 80)
        outputs = []
        skips = [fifth, fourth]
        del fourth, fifth
        for down, block, side in ((self.again4, self.out4, 80), (self.again5, self.out5, 40)):
            x = interleave(x)
            outputs.append(ttnn.clone(x, dtype=ttnn.bfloat16))
            halved = down(x, side)
            ttnn.deallocate(x)
            halved = interleave(halved)
            halved = row_major(halved)
            skip = skips.pop()
            if skip.layout != ttnn.ROW_MAJOR_LAYOUT:
                skip = row_major(skip)
            x = self.merge(block, halved, skip, side // 2)
        return [*outputs, x]

    def __call__(self, image: Any) -> Any:
        return self.detect(self.neck(self.backbone(image)))


def run(device: Any) -> Any:
    model = Yolo(device)
    image = ttnn.from_torch(torch.randn(1, 3, SIDE, SIDE), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    rows = 16 * SIDE // 64  # the share of a core once the channels are padded to 16
    return ttnn.to_torch(model(image.to(device, height_shards(rows, SIDE, 64))))


def main() -> None:
    torch.manual_seed(0)
    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_BYTES)
    try:
        predictions = run(device)
    finally:
        ttnn.close_device(device)
    print(f"yolov8s: predictions {tuple(predictions.shape)}")


if __name__ == "__main__":
    main()
