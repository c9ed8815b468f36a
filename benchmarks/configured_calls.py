"""Random calls with settings: every config class, and every operator family whose calls take some. For ``sharded_calls.py``.

The text of a setting is the same in the case and in the plain program, so that what the program builds is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from random_calls import (
    L1_SMALL,
    TILE,
    Call,
    Draw,
    Memory,
    Tensor,
    _compute_kernel,
    _configured,
    _configured_product,
    _configured_softmax,
    _product_on_grid,
    part,
)

Draws = Callable[[Draw], Call]


def some(r: Random, **settings: str) -> dict[str, str]:
    """Returns at least one of the settings."""
    chosen = {name: text for name, text in settings.items() if r.random() < 0.5}
    return chosen or dict([r.choice(list(settings.items()))])


def with_attrs(call: Call, **attrs: Any) -> Call:
    return replace(call, attrs={**call.attrs, **attrs})


def cores(d: Draw) -> str:
    """Draws some cores, as one range or two."""
    r = d.random
    wide, tall = r.randint(1, d.grid[0]), r.randint(1, d.grid[1])
    first = f"ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord({wide - 1}, {tall - 1}))"
    if tall < d.grid[1] and r.random() < 0.4:
        return f"ttnn.CoreRangeSet([{first}, ttnn.CoreRange(ttnn.CoreCoord(0, {tall}), ttnn.CoreCoord({wide // 2}, {tall}))])"
    return f"ttnn.CoreRangeSet({{{first}}})"


def plain_memory(d: Draw) -> Memory:
    return Memory(d.random.choice(["dram", "l1"]))


# Matrix products ------------------------------------------------------------------------------------------------------------


def transposed_product(d: Draw) -> Call:
    r = d.random
    rows, inner, columns = d.tiles(256), d.tiles(64), d.tiles(64)
    turned_a, turned_b = r.choice([(True, False), (False, True), (True, True)])
    a = Tensor((inner, rows) if turned_a else (rows, inner), d.dtype(), "tile", plain_memory(d))
    b = Tensor((columns, inner) if turned_b else (inner, columns))
    flags = {f"transpose_{name}": True for name, turned in (("a", turned_a), ("b", turned_b)) if turned}
    grid = {"core_grid": f"ttnn.CoreGrid(y={r.randint(1, d.grid[1])}, x={r.randint(1, d.grid[0])})"} if r.random() < 0.5 else {}
    start = "ttnn.matmul(a, b" + "".join(f", {name}=True" for name in flags)
    return with_attrs(_configured("mm", (a, b), start, grid, plain_memory(d)), **flags)


def reused_product(d: Draw) -> Call:
    """A batch of products, each on a core of its own."""
    r = d.random
    batch, rows, inner, columns = r.choice([1, 4, 16, 60]), *(r.choice([1, 2, 3, 4, 8, 32]) for _ in range(3))
    a = Tensor((batch, rows * TILE, inner * TILE), d.dtype(), "tile", plain_memory(d))
    b = Tensor((batch, inner * TILE, columns * TILE), "bfloat16", "tile", plain_memory(d))
    block = r.choice([n for n in range(1, inner + 1) if inner % n == 0])
    config = (
        f"ttnn.MatmulMultiCoreReuseProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord({d.grid[0]}, {d.grid[1]}),"
        f" in0_block_w={block}, out_subblock_h=1, out_subblock_w=1, per_core_M={rows}, per_core_N={columns})"
    )
    return _configured("bmm", (a, b), "ttnn.matmul(a, b", {"program_config": config}, plain_memory(d))


def dram_sharded_product(d: Draw) -> Call:
    """The product of decoding: one row of tiles in width shards, the weight over the DRAM banks."""
    r = d.random
    columns_of_cores = d.grid[0]
    inner = columns_of_cores * r.choice([1, 2, 4, 8])
    columns = columns_of_cores * r.choice([1, 2, 4, 16])
    a_memory = Memory("l1", "width", (columns_of_cores, 1), (TILE, TILE * inner // columns_of_cores))
    shard = part(columns * TILE, d.dram_banks, TILE)
    b_memory = Memory("dram", "width", (d.dram_banks, 1), (inner * TILE, shard))
    a = Tensor((1, 1, TILE, inner * TILE), "bfloat16", "tile", a_memory)
    b = Tensor((inner * TILE, columns * TILE), r.choice(["bfloat16", "bfloat8_b"]), "tile", b_memory)
    config = (
        f"ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w={inner // columns_of_cores}, per_core_M=1,"
        f" per_core_N={columns // columns_of_cores}, fused_activation={r.choice([None, 'ttnn.UnaryOpType.SILU'])})"
    ).replace("fused_activation=ttnn.UnaryOpType.SILU", "fused_activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)")
    result = Memory("l1", "width", (columns_of_cores, 1), (TILE, TILE * columns // columns_of_cores))
    return _configured("matmul", (a, b), "ttnn.matmul(a, b", {"program_config": config}, result)


def linear(d: Draw) -> Call:
    r = d.random
    rows, inner, columns = d.tiles(64), d.tiles(32), d.tiles(32)
    a, weight, bias = Tensor((1, rows, inner), d.dtype()), Tensor((inner, columns), "bfloat8_b"), Tensor((1, columns))
    settings = some(
        r,
        activation=r.choice(["'relu'", "'gelu'", "ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0)"]),
        core_grid=f"ttnn.CoreGrid(y={r.randint(1, d.grid[1])}, x={r.randint(1, d.grid[0])})",
        compute_kernel_config=_compute_kernel(d),
    )
    call = _configured("linear", (a, weight, bias), "ttnn.linear(a, b, bias=c", settings, plain_memory(d))
    words = {name: text.strip("'") for name, text in settings.items()}
    return replace(call, attrs=words, written=((1, rows, inner), (columns, inner), (columns,)))


# Norms and attention --------------------------------------------------------------------------------------------------------


def sharded_softmax(d: Draw) -> Call:
    r = d.random
    wide, tall = r.randint(1, d.grid[0]), r.randint(1, d.grid[1])
    block_h, block_w = r.choice([1, 2, 4, 12]), r.choice([1, 2, 4, 8, 32])
    shape = (1, 1, TILE * block_h * wide * tall, TILE * block_w)
    memory = Memory("l1", "height", (wide, tall), (TILE * block_h, TILE * block_w))
    subblock = r.choice([n for n in (1, 2, 4) if block_w % n == 0])
    config = (
        f"ttnn.SoftmaxShardedMultiCoreProgramConfig(compute_with_storage_grid_size=({wide}, {tall}), subblock_w={subblock},"
        f" block_h={block_h}, block_w={block_w})"
    )
    tensors = (Tensor(shape, r.choice(["bfloat16", "bfloat8_b"]), "tile", memory),)
    settings = {"program_config": config, **some(r, compute_kernel_config=_compute_kernel(d))}
    keywords = ", ".join(f"{name}={text}" for name, text in settings.items())
    plain = f"(ttnn.softmax_in_place(a, dim=-1, {keywords}), a)[1]"  # two tensors of one buffer would not be freed
    return Call("softmax", tensors, plain, {**settings, "dim": -1})


def sharded_rms_norm(d: Draw) -> Call:
    r = d.random
    wide, tall = r.randint(1, d.grid[0]), r.randint(1, d.grid[1])
    block_h, block_w = r.choice([1, 2, 4, 12]), r.choice([1, 2, 3, 8, 16])
    shape = (1, 1, TILE * block_h * tall, TILE * block_w * wide)
    memory = Memory("l1", "block", (wide, tall), (TILE * block_h, TILE * block_w))
    in_place = r.random() < 0.3
    config = (
        f"ttnn.LayerNormShardedMultiCoreProgramConfig(compute_with_storage_grid_size=({wide}, {tall}), subblock_w=1,"
        f" block_h={block_h}, block_w={block_w}, inplace={in_place})"
    )
    tensors = (Tensor(shape, "bfloat16", "tile", memory),)
    call = _configured("rms_norm", tensors, "ttnn.rms_norm(a, epsilon=1e-5", {"program_config": config}, None)
    call = replace(call, plain=f"({call.plain}, a)[1]") if in_place else call
    return with_attrs(call, normalized_shape=[shape[-1]], eps=1e-5)


def group_norm(d: Draw) -> Call:
    r = d.random
    groups, side = r.choice([8, 32]), r.choice([16, 32, 64, 128])
    channels = r.choice([256, 512, 1024])
    wide, tall = r.choice([1, 2, 4, 8]), r.choice([1, 2, 4, 8])
    settings = {
        "core_grid": f"ttnn.CoreGrid(y={tall}, x={wide})",
        **({"num_out_blocks": str(r.choice([1, 2, 4]))} if r.random() < 0.5 else {}),
        **({"compute_kernel_config": _compute_kernel(d)} if r.random() < 0.5 else {}),
    }
    x = Tensor((1, 1, side * side, channels), "bfloat16", "tile", plain_memory(d))
    start = f"ttnn.group_norm(a, num_groups={groups}, epsilon=1e-5, inplace=False, output_layout=ttnn.TILE_LAYOUT"
    call = _configured("group_norm", (x,), start, settings, None)
    numbers = {name: int(text) if text.isdigit() else text for name, text in settings.items()}
    attrs = {**numbers, "num_groups": groups, "eps": 1e-5}
    return replace(call, attrs=attrs, written=((1, side, side, channels),))


def attention(d: Draw) -> Call:
    r = d.random
    heads, rows, width = r.choice([1, 4, 16]), TILE * r.choice([2, 4, 32, 64]), r.choice([32, 64, 128, 256])
    tensors = tuple(Tensor((1, heads, rows, width), "bfloat16", "tile", Memory("dram")) for _ in range(3))
    chunks = [TILE * 2 ** r.randrange(0, 6) for _ in range(2)]
    config = (
        f"ttnn.SDPAProgramConfig(compute_with_storage_grid_size=({r.randint(1, d.grid[0])}, {r.randint(1, d.grid[1])}),"
        f" q_chunk_size={chunks[0]}, k_chunk_size={chunks[1]}, exp_approx_mode={r.random() < 0.5})"
    )
    settings = {"program_config": config, **some(r, compute_kernel_config=_compute_kernel(d))}
    start = "ttnn.transformer.scaled_dot_product_attention(a, b, c, is_causal=False"
    return _configured("scaled_dot_product_attention", tensors, start, settings, None)


# Convolutions and pools -----------------------------------------------------------------------------------------------------


def conv_config(d: Draw) -> str:
    r = d.random
    fields = some(
        r,
        weights_dtype="ttnn.bfloat8_b",
        act_block_h_override=str(TILE * r.choice([1, 2, 4])),
        shard_layout=f"ttnn.TensorMemoryLayout.{r.choice(['HEIGHT', 'BLOCK', 'WIDTH'])}_SHARDED",
        activation="ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)",
        enable_act_double_buffer="True",
        config_tensors_in_dram="True",
        reallocate_halo_output="False",
    )
    return f"ttnn.Conv2dConfig({', '.join(f'{name}={text}' for name, text in fields.items())})"


def slices(d: Draw) -> str:
    r = d.random
    if r.random() < 0.3:
        return "ttnn.Conv2dL1FullSliceConfig"
    along = r.choice(["Height", "Width"])
    return f"ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSlice{along}, num_slices={r.choice([1, 2, 4])})"


def _sizes(d: Draw) -> tuple[int, int, int]:
    r = d.random
    return r.choice([14, 28, 56, 112, 256]), TILE * r.choice([1, 2, 4, 8]), TILE * r.choice([1, 2, 4])


def convolution(d: Draw, *, transposed: bool = False) -> Call:
    side, channels, outputs = _sizes(d)
    kernel = 2 if transposed else d.random.choice([1, 3, 3, 5])
    padding = 0 if transposed else kernel // 2
    image = Tensor((1, side, side, channels), "bfloat16", "row_major")
    weight = Tensor(
        (channels, outputs, kernel, kernel) if transposed else (outputs, channels, kernel, kernel), layout="row_major"
    )
    settings = some(
        d.random,
        conv_config=conv_config(d),
        compute_config=_compute_kernel(d),
        **{"dram_slice_config" if transposed else "slice_config": slices(d)},
    )
    function, held = ("conv_transpose2d", "ttnn.from_device(b)") if transposed else ("conv2d", "b")
    stride = 2 if transposed else 1
    keywords = "".join(f", {name}={text}" for name, text in settings.items())
    plain = (
        f"ttnn.{function}(input_tensor=a, weight_tensor={held}, device=device, in_channels={channels}, out_channels={outputs},"
        f" batch_size=1, input_height={side}, input_width={side}, kernel_size=({kernel}, {kernel}),"
        f" stride=({stride}, {stride}), padding=({padding}, {padding}), dilation=(1, 1), groups=1{keywords}, **out)"
    )
    attrs = {**settings, "padding": [padding] * 2, "stride": [stride] * 2}
    operator = "conv_transpose2d" if transposed else "convolution"
    written = ((1, side, side, channels), weight.shape)
    return Call(operator, (image, weight), plain, attrs, written=written, l1_small=L1_SMALL, chosen=True)


def convolution_1d(d: Draw) -> Call:
    length, channels, outputs = _sizes(d)
    image = Tensor((1, length, channels), "bfloat16", "row_major")
    weight = Tensor((outputs, channels, 3), layout="row_major")
    settings = some(d.random, conv_config=conv_config(d), compute_config=_compute_kernel(d))
    keywords = "".join(f", {name}={text}" for name, text in settings.items())
    plain = (
        f"ttnn.conv1d(input_tensor=a, weight_tensor=b, device=device, in_channels={channels}, out_channels={outputs},"
        f" batch_size=1, input_length={length}, kernel_size=3, stride=1, padding=1, dilation=1, groups=1{keywords})"
    )
    written = ((1, channels, length), weight.shape)
    attrs = {**settings, "padding": [1]}
    return Call("convolution", (image, weight), plain, attrs, written=written, l1_small=L1_SMALL, chosen=True)


def pool(d: Draw) -> Call:
    side, channels, _ = _sizes(d)
    maximum = d.random.random() < 0.5
    settings = some(
        d.random,
        dram_slice_config=slices(d).replace("Conv2d", "Op2D"),
        applied_shard_scheme="ttnn.TensorMemoryLayout.HEIGHT_SHARDED",
        reallocate_halo_output="False",
        config_tensor_in_dram="True",
        **({} if maximum else {"compute_kernel_config": _compute_kernel(d)}),
    )
    keywords = "".join(f", {name}={text}" for name, text in settings.items())
    x = Tensor((1, 1, side * side, channels), "bfloat16", "row_major", plain_memory(d))
    function, dilation = ("max_pool2d", ", dilation=[1, 1]") if maximum else ("avg_pool2d", "")
    plain = (
        f"ttnn.{function}(a, batch_size=1, input_h={side}, input_w={side}, channels={channels}, kernel_size=[3, 3],"
        f" stride=[2, 2], padding=[1, 1]{dilation}, ceil_mode=False{keywords})"
    )
    flags = {name: text == "True" if text in ("True", "False") else text for name, text in settings.items()}
    attrs = {**flags, "kernel_size": 3, "stride": 2, "padding": 1}
    return Call(function, (x,), plain, attrs, written=((1, side, side, channels),), l1_small=L1_SMALL, chosen=True)


# Elementwise and the like ---------------------------------------------------------------------------------------------------


def unary(operator: str) -> Draws:
    def draw(d: Draw) -> Call:
        x = d.tensor()
        return _configured(
            operator, (replace(x, memory=plain_memory(d)),), f"ttnn.{operator}(a", {"sub_core_grids": cores(d)}, None
        )

    return draw


def binary(operator: str, function: str) -> Draws:
    def draw(d: Draw) -> Call:
        r = d.random
        x = replace(d.tensor(), memory=plain_memory(d))
        settings = some(
            r,
            activations="[ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)]",
            input_tensor_a_activations="[ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)]",
            sub_core_grids=cores(d),
        )
        return _configured(operator, (x, x), f"ttnn.{function}(a, b", settings, None)

    return draw


def grouped_concat(d: Draw) -> Call:
    r = d.random
    rows, width, groups = d.tiles(64), TILE * r.choice([2, 4, 8]), r.choice([1, 2])
    x = Tensor((1, 1, rows, width), "bfloat16", "tile", plain_memory(d))
    settings = {"groups": str(groups)}
    call = _configured("cat", (x, x), "ttnn.concat([a, b], dim=-1", settings, plain_memory(d))
    return replace(call, attrs={"dim": -1, "groups": groups})


CONFIGURED: dict[str, Draws] = {
    "program config": _configured_product,
    "core grid": _product_on_grid,
    "transposed": transposed_product,
    "reuse": reused_product,
    "dram sharded": dram_sharded_product,
    "linear": linear,
    "softmax": _configured_softmax,
    "sharded softmax": sharded_softmax,
    "rms_norm": sharded_rms_norm,
    "group_norm": group_norm,
    "attention": attention,
    "convolution": convolution,
    "conv_transpose2d": lambda d: convolution(d, transposed=True),
    "conv1d": convolution_1d,
    "pool": pool,
    **{name: unary(name) for name in ("relu", "exp", "silu")},
    **{name: binary(name, function) for name, function in (("add", "add"), ("mul", "multiply"))},
    "concat": grouped_concat,
}
