"""Random calls as ports make them: sharded, of mixed dtypes, with settings. Each is a case, and the same as plain TTNN.

A call is drawn from a seed alone, so that the same seed gives the same calls on every machine. Shards, where a case states
them, are stated completely on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

TILE = 32
FLOATS = ("bfloat16", "bfloat16", "bfloat16", "float32", "bfloat8_b", "bfloat4_b")
KINDS = ("height", "width", "block")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Memory:
    """Where a tensor is, in shards if it has a ``kind``. ``grid``: columns and rows from core (0, 0)."""

    buffer: str = "dram"
    kind: str = ""
    grid: tuple[int, int] = (1, 1)
    shard: tuple[int, int] = (TILE, TILE)
    orientation: str = "row_major"

    @property
    def text(self) -> str:
        """As ``ssinghal`` reads it."""
        if not self.kind:
            return self.buffer
        turned = ":col_major" if self.orientation == "col_major" else ""
        return f"{self.buffer}:{self.kind}@{self.grid[0]}x{self.grid[1]}:{self.shard[0]}x{self.shard[1]}{turned}"


@dataclass(frozen=True)
class Tensor:
    shape: Shape
    dtype: str = "bfloat16"
    layout: str = "tile"
    memory: Memory = Memory()

    @property
    def folded(self) -> tuple[int, int]:
        """Height and width of the padded tensor as a matrix."""
        *leading, height, width = (1, *self.shape)
        if self.layout == "tile":
            height, width = -(-height // TILE) * TILE, -(-width // TILE) * TILE
        return math.prod(leading) * height, width


@dataclass(frozen=True)
class Call:
    """One call. ``plain``: Python with ``device``, operands ``a``, ``b``, … and ``**out``. ``result``: the memory that is
    requested; None: that of the first operand. ``chosen``: no memory is requested, so that TTNN chooses. ``written``: shapes of
    the case where they differ from those on the device."""

    operator: str
    tensors: tuple[Tensor, ...]
    plain: str
    attrs: dict[str, Any] = field(default_factory=dict)
    result: Memory | None = None
    result_dtype: str = ""
    written: tuple[Shape, ...] = ()
    l1_small: int = 0
    chosen: bool = False

    def case(self) -> dict[str, Any]:
        """Returns the JSON that ``ssinghal probe --from`` reads."""
        first = self.tensors[0]
        own = [
            {"dtype": t.dtype, "layout": t.layout, "memory": t.memory.text} if t != first or t is first else None
            for t in self.tensors
        ]
        return {
            "op": self.operator,
            "inputs": [list(shape) for shape in self.written or [t.shape for t in self.tensors]],
            "attrs": self.attrs,
            "dtype": first.dtype,
            "layout": first.layout,
            "memory": first.memory.text,
            "output_memory": "ttnn" if self.chosen else "same" if self.result is None else self.result.text,
            "channels_last": False,
            "l1_small_size": self.l1_small,
            "operands": own,
            **({"output_dtype": self.result_dtype} if self.result_dtype else {}),
        }

    def plain_json(self) -> dict[str, Any]:
        """Returns what ``plain_calls.py`` reads."""
        memory = None if self.chosen else vars(self.result or self.tensors[0].memory)
        return {
            "tensors": [
                {"shape": t.shape, "dtype": t.dtype, "layout": t.layout, "memory": vars(t.memory)} for t in self.tensors
            ],
            "call": self.plain,
            "memory": memory,
            "dtype": self.result_dtype,
            "l1_small": self.l1_small,
        }


def part(size: int, parts: int, unit: int) -> int:
    """Returns the size of each of ``parts`` equal parts, a multiple of ``unit``."""
    return math.ceil(math.ceil(size / parts) / unit) * unit


@dataclass
class Draw:
    """Draws the parts of calls for a board with this grid of cores and number of DRAM banks."""

    random: Random
    grid: tuple[int, int]
    dram_banks: int

    def dtype(self) -> str:
        return self.random.choice(FLOATS)

    def tiles(self, most: int) -> int:
        """Returns a size of up to ``most`` tiles, a power of two times 1 to 9 more often than not."""
        r = self.random
        tiles = r.choice([1, 2, 3, 4, 5, 6, 7, 9]) * 2 ** r.randrange(0, 9) if r.random() < 0.7 else r.randint(1, most)
        return TILE * min(tiles, most)

    def shape(self) -> Shape:
        r = self.random
        height, width = self.tiles(1024), self.tiles(256)
        if r.random() < 0.2:
            height, width = max(1, height - r.randrange(TILE)), max(1, width - r.randrange(TILE))
        leading = r.choice([(1, 1), (1, 1), (1,), (), (2, 1), (1, 3)])
        return (*leading, height, width)

    def memory(self, shape: Shape, kind: str | None = None, layout: str = "tile") -> Memory:
        """Returns a memory in which TTNN can place the shape: interleaved, or in shards that hold it."""
        r = self.random
        if kind is None and r.random() < 0.3:
            return Memory(r.choice(["dram", "l1"]))
        kind = kind or r.choice(KINDS)
        height, width = Tensor(shape, layout=layout).folded
        columns, rows = r.choice([self.grid, self.grid, (r.randint(1, self.grid[0]), r.randint(1, self.grid[1]))])
        edge = TILE if layout == "tile" else 1
        turned = r.random() < 0.15
        down, across = {"height": (columns * rows, 1), "width": (1, columns * rows), "block": (rows, columns)}[kind]
        if kind == "block" and turned:
            down, across = columns, rows
        shard = part(height, down, edge), part(width, across, TILE)
        return Memory("l1", kind, (columns, rows), shard, "col_major" if turned else "row_major")

    def tensor(self, shape: Shape | None = None, dtype: str | None = None, kind: str | None = None) -> Tensor:
        shape = shape or self.shape()
        return Tensor(shape, dtype or self.dtype(), "tile", self.memory(shape, kind))


# Kinds of calls ------------------------------------------------------------------------------------------------------------


def _unary(operator: str, function: str = "", arguments: str = "", **attrs: Any) -> Callable[[Draw], Call]:
    return lambda d: Call(operator, (d.tensor(),), f"ttnn.{function or operator}(a{arguments}, **out)", attrs)


def _binary(operator: str, function: str) -> Callable[[Draw], Call]:
    def draw(d: Draw) -> Call:
        first = d.tensor()
        shape = first.shape if d.random.random() < 0.8 else (*first.shape[:-2], 1, first.shape[-1])
        second = Tensor(
            shape, d.dtype(), "tile", first.memory if d.random.random() < 0.5 and shape == first.shape else d.memory(shape)
        )
        return Call(operator, (first, second), f"ttnn.{function}(a, b, **out)")

    return draw


def _product(operator: str, extra: Callable[[Draw], tuple[str, dict[str, Any]]] | None = None) -> Callable[[Draw], Call]:
    def draw(d: Draw) -> Call:
        rows, inner, columns = d.tiles(256), d.tiles(64), d.tiles(64)
        leading = (1, 1) if operator == "matmul" else (2,) if operator == "bmm" else ()
        a = d.tensor((*leading, rows, inner))
        shape = (*(leading if operator == "bmm" else ()), inner, columns)
        b = Tensor(shape, d.dtype(), "tile", d.random.choice([Memory(), Memory(), Memory("l1"), d.memory(shape)]))
        result = d.memory((*leading, rows, columns))
        dtype = d.random.choice(["", "", "bfloat16", "bfloat8_b"])
        return Call(operator, (a, b), "ttnn.matmul(a, b, **out)", result=result, result_dtype=dtype)

    return draw


def _linear(d: Draw) -> Call:
    rows, inner, columns = d.tiles(256), d.tiles(64), d.tiles(64)
    a = d.tensor((1, rows, inner))
    weight, bias = Tensor((inner, columns), d.dtype()), Tensor((1, columns), d.dtype())
    written = ((1, rows, inner), (columns, inner), (columns,))
    result = d.memory((1, rows, columns))
    return Call("linear", (a, weight, bias), "ttnn.linear(a, b, bias=c, **out)", result=result, written=written)


def _norm(operator: str) -> Callable[[Draw], Call]:
    def draw(d: Draw) -> Call:
        a = d.tensor()
        width = a.shape[-1]
        attrs = {"normalized_shape": [width], "eps": 1e-5}
        return Call(operator, (a,), f"ttnn.{operator}(a, epsilon=1e-5, **out)", attrs)

    return draw


def _concat(d: Draw) -> Call:
    first = d.tensor()
    dim = d.random.choice([-1, -2])
    count = d.random.randint(2, 3)
    shape = [*first.shape]
    shape[dim] *= count
    others = [first if d.random.random() < 0.7 else Tensor(first.shape, first.dtype, "tile", d.memory(first.shape))] * (
        count - 1
    )
    names = "abc"[:count]
    result = d.memory(tuple(shape))
    return Call("cat", (first, *others), f"ttnn.concat([{', '.join(names)}], dim={dim}, **out)", {"dim": dim}, result)


def _softmax(d: Draw) -> Call:
    return Call("softmax", (d.tensor(),), "ttnn.softmax(a, dim=-1, **out)", {"dim": -1})


def _reduction(operator: str) -> Callable[[Draw], Call]:
    def draw(d: Draw) -> Call:
        a = d.tensor()
        shape = (*a.shape[:-1], 1)
        result = d.memory(shape)
        return Call(operator, (a,), f"ttnn.{operator}(a, -1, True, **out)", {"dim": -1, "keepdim": True}, result)

    return draw


def _transpose(d: Draw) -> Call:
    a = d.tensor()
    shape = (*a.shape[:-2], a.shape[-1], a.shape[-2])
    return Call("transpose", (a,), "ttnn.transpose(a, -2, -1, **out)", {"dim0": -2, "dim1": -1}, d.memory(shape))


def _clamp(d: Draw) -> Call:
    return Call("clamp", (d.tensor(),), "ttnn.clamp(a, -1.0, 1.0, **out)", {"min": -1.0, "max": 1.0})


def _where(d: Draw) -> Call:
    first = d.tensor()
    others = [Tensor(first.shape, first.dtype, "tile", d.random.choice([first.memory, d.memory(first.shape)])) for _ in "bc"]
    return Call("where", (first, *others), "ttnn.where(a, b, c, **out)")


def _typecast(d: Draw) -> Call:
    a, dtype = d.tensor(), d.dtype()
    return Call("typecast", (a,), f"ttnn.typecast(a, ttnn.{dtype}, **out)", {"dtype": dtype})


def _number(operator: str, function: str) -> Callable[[Draw], Call]:
    return lambda d: Call(operator, (d.tensor(),), f"ttnn.{function}(a, 0.5, **out)", {"other": 0.5})


def _rows(d: Draw) -> Call:
    """Draws a copy of rows in row-major layout, whose pages are not all of one size."""
    r = d.random
    shape = (1, r.randint(1, 3), r.randint(1, 400), r.choice([8, 16, 24, 40, 64, 100, 512, 1000, 4096]))
    height, width = math.prod(shape[:-1]), shape[-1]
    kind = r.choice(["", "height", "width", "block"])
    columns, rows = r.randint(1, d.grid[0]), r.randint(1, d.grid[1])
    down, across = {"": (1, 1), "height": (columns * rows, 1), "width": (1, columns * rows), "block": (rows, columns)}[kind]
    shard = part(height, down, 1), part(width, across, 1 if across == 1 else 8)
    memory = Memory("l1", kind, (columns, rows), shard) if kind else Memory(r.choice(["dram", "l1"]))
    tensor = Tensor(shape, r.choice(["bfloat16", "float32", "uint16", "int32"]), "row_major", memory)
    return Call("clone", (tensor,), "ttnn.clone(a, **out)")


def _pad(d: Draw) -> Call:
    a = d.tensor()
    shape = (*a.shape[:-2], a.shape[-2] + TILE, a.shape[-1])
    before = [(0, 0)] * (len(shape) - 2)
    return Call(
        "pad", (a,), f"ttnn.pad(a, {[*before, (0, TILE), (0, 0)]}, 0.0, **out)", {"pad": [0, 0, 0, TILE]}, d.memory(shape)
    )


def _slice(d: Draw) -> Call:
    a = d.tensor((1, 1, 2 * d.tiles(64), d.tiles(64)))
    end = a.shape[2] // 2
    result = d.memory((1, 1, end, a.shape[3]))
    plain = f"ttnn.slice(a, [0, 0, 0, 0], [1, 1, {end}, {a.shape[3]}], [1, 1, 1, 1], **out)"
    return Call("slice", (a,), plain, {"dim": 2, "start": 0, "end": end}, result)


# Settings: a case has the same text as the plain call.


def _compute_kernel(d: Draw) -> str:
    r = d.random
    fidelity, wide, packer = r.choice(["LoFi", "HiFi2", "HiFi4"]), r.random() < 0.5, r.random() < 0.5
    return (
        f"ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.{fidelity}, math_approx_mode=False,"
        f" fp32_dest_acc_en={wide}, packer_l1_acc={packer})"
    )


def _program_config(d: Draw, rows: int, inner: int, columns: int) -> str:
    """Draws a config of a matrix product of these sizes in tiles; most of them are legal."""
    r = d.random
    wide, tall = r.choice([d.grid, (r.randint(1, d.grid[0]), r.randint(1, d.grid[1]))])
    block = r.choice([n for n in range(1, inner + 1) if inner % n == 0][:4])
    shared = f"compute_with_storage_grid_size=({wide}, {tall}), in0_block_w={block}, out_subblock_h=1, out_subblock_w=1"
    kind = r.choice(["2d", "2d", "1d in0", "1d in1", "reuse"])
    if kind == "2d":
        per_core = f"per_core_M={part(rows, tall, 1)}, per_core_N={part(columns, wide, 1)}"
        rest = f"{per_core}, transpose_mcast=False, fused_activation=None"
        return f"ttnn.MatmulMultiCoreReuseMultiCastProgramConfig({shared}, {rest})"
    if kind == "reuse":
        per_core = f"per_core_M={part(rows, wide * tall, 1)}, per_core_N={columns}"
        return f"ttnn.MatmulMultiCoreReuseProgramConfig({shared}, {per_core})"
    across = kind == "1d in0"
    tiles = (rows, part(columns, wide * tall, 1)) if across else (part(rows, wide * tall, 1), columns)
    sizes = f"per_core_M={tiles[0]}, per_core_N={tiles[1]}"
    rest = f"fuse_batch=True, fused_activation={r.choice([None, 'ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0)'])}"
    return f"ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig({shared}, {sizes}, {rest}, mcast_in0={across})"


def _configured_product(d: Draw) -> Call:
    rows, inner, columns = d.tiles(256), d.tiles(64), d.tiles(64)
    a = d.tensor((1, 1, rows, inner), kind=d.random.choice(KINDS)) if d.random.random() < 0.4 else Tensor((1, 1, rows, inner))
    b = Tensor((inner, columns), d.random.choice(["bfloat16", "bfloat8_b"]))
    settings = {"program_config": _program_config(d, rows // TILE, inner // TILE, columns // TILE)}
    if d.random.random() < 0.5:
        settings["compute_kernel_config"] = _compute_kernel(d)
    return _configured("matmul", (a, b), "ttnn.matmul(a, b", settings, d.memory((1, 1, rows, columns)))


def _configured(name: str, tensors: tuple[Tensor, ...], start: str, settings: dict[str, str], result: Memory | None) -> Call:
    keywords = "".join(f", {key}={value}" for key, value in settings.items())
    return Call(name, tensors, f"{start}{keywords}, **out)", dict(settings), result)


def _product_on_grid(d: Draw) -> Call:
    rows, inner, columns = d.tiles(256), d.tiles(64), d.tiles(64)
    wide, tall = d.random.randint(1, d.grid[0]), d.random.randint(1, d.grid[1])
    tensors = Tensor((1, 1, rows, inner), d.dtype(), "tile", Memory(d.random.choice(["dram", "l1"]))), Tensor((inner, columns))
    settings = {"core_grid": f"ttnn.CoreGrid(y={tall}, x={wide})"}
    return _configured("matmul", tensors, "ttnn.matmul(a, b", settings, Memory(d.random.choice(["dram", "l1"])))


def _configured_norm(d: Draw) -> Call:
    r = d.random
    wide, tall = r.randint(1, d.grid[0]), r.randint(1, d.grid[1])
    block_h, block_w = r.choice([1, 2, 4, 12]), r.choice([1, 2, 3, 8, 16])
    shape = (1, 1, TILE * block_h * tall, TILE * block_w * wide)
    memory = Memory("l1", "block", (wide, tall), (TILE * block_h, TILE * block_w))
    config = (
        f"ttnn.LayerNormShardedMultiCoreProgramConfig(compute_with_storage_grid_size=({wide}, {tall}), subblock_w=1,"
        f" block_h={block_h}, block_w={block_w}, inplace=False)"
    )
    settings = {"program_config": config}
    if r.random() < 0.5:
        settings["compute_kernel_config"] = _compute_kernel(d)
    call = _configured(
        "layer_norm", (Tensor(shape, d.dtype(), "tile", memory),), "ttnn.layer_norm(a, epsilon=1e-5", settings, None
    )
    return replace(call, attrs={**call.attrs, "normalized_shape": [shape[-1]], "eps": 1e-5})


def _configured_softmax(d: Draw) -> Call:
    settings = {"compute_kernel_config": _compute_kernel(d), "numeric_stable": str(d.random.random() < 0.5)}
    call = _configured("softmax", (d.tensor(),), "ttnn.softmax(a, dim=-1", settings, None)
    return replace(call, attrs={**call.attrs, "numeric_stable": settings["numeric_stable"] == "True", "dim": -1})


L1_SMALL = 32768


def _convolution(d: Draw) -> Call:
    r = d.random
    batch, side, kernel = r.choice([1, 1, 2]), r.choice([14, 16, 28, 32, 56, 64, 80]), r.choice([1, 3, 3, 5])
    channels, outputs = TILE * r.choice([1, 2, 4, 8]), TILE * r.choice([1, 2, 4, 8])
    flat = (1, 1, batch * side * side, channels)
    kind = r.choice(["", "height", "block", "width"])
    memory = d.memory(flat, kind) if kind else Memory(r.choice(["dram", "l1"]))
    tiled = r.random() < 0.5 or kind
    dtype = r.choice(["bfloat16", "bfloat8_b"] if tiled else ["bfloat16", "float32"])
    image = Tensor(flat, dtype, "tile", memory) if tiled else Tensor((batch, side, side, channels), dtype, "row_major", memory)
    weight = Tensor((outputs, channels, kernel, kernel), r.choice(["bfloat16", "float32"]), "row_major")
    attrs: dict[str, Any] = {"padding": [kernel // 2] * 2}
    config = []
    if r.random() < 0.4:
        config = [f"act_block_h_override={TILE * r.choice([1, 2, 4])}", f"enable_act_double_buffer={r.random() < 0.5}"]
        config += r.choice([[], [f"shard_layout=ttnn.TensorMemoryLayout.{r.choice(KINDS).upper()}_SHARDED"]])
        config += r.choice([[], ["reshard_if_not_optimal=True"], ["output_layout=ttnn.ROW_MAJOR_LAYOUT"]])
    if config:
        attrs["conv_config"] = f"ttnn.Conv2dConfig({', '.join(config)})"
    config += ["weights_dtype=ttnn.bfloat8_b"] if dtype == "bfloat8_b" else []
    dtypes = ", dtype=ttnn.bfloat8_b" if dtype == "bfloat8_b" else ""
    settings = f"{dtypes}, conv_config=ttnn.Conv2dConfig({', '.join(config)})" if config else dtypes
    plain = (
        f"ttnn.conv2d(input_tensor=a, weight_tensor=b, device=device, in_channels={channels}, out_channels={outputs},"
        f" batch_size={batch}, input_height={side}, input_width={side}, kernel_size=({kernel}, {kernel}), stride=(1, 1),"
        f" padding=({kernel // 2}, {kernel // 2}), dilation=(1, 1), groups=1{settings})"
    )
    written = ((batch, side, side, channels), weight.shape)
    return Call("convolution", (image, weight), plain, attrs, written=written, l1_small=L1_SMALL, chosen=True)


UNARY = (
    "relu",
    "exp",
    "sqrt",
    "rsqrt",
    "abs",
    "neg",
    "silu",
    "tanh",
    "log",
    "sin",
    "cos",
    "floor",
    "reciprocal",
    "square",
    "erf",
)
DRAWS: dict[str, Callable[[Draw], Call]] = {
    **{name: _unary(name) for name in UNARY},
    "clone": _unary("clone"),
    **{name: _binary(name, function) for name, function in (("add", "add"), ("mul", "multiply"), ("sub", "subtract"))},
    **{
        name: _binary(name, function) for name, function in (("maximum", "maximum"), ("gt", "gt"), ("eq", "eq"), ("div", "div"))
    },
    "add number": _number("add", "add"),
    "mul number": _number("mul", "multiply"),
    **{name: _product(name) for name in ("matmul", "mm", "bmm")},
    "linear": _linear,
    **{name: _norm(name) for name in ("layer_norm", "rms_norm")},
    "softmax": _softmax,
    **{name: _reduction(name) for name in ("sum", "mean")},
    "cat": _concat,
    "transpose": _transpose,
    "clamp": _clamp,
    "where": _where,
    "typecast": _typecast,
    "rows": _rows,
    "pad": _pad,
    "slice": _slice,
    "convolution": _convolution,
    "configured matmul": _configured_product,
    "matmul on a grid": _product_on_grid,
    "configured layer_norm": _configured_norm,
    "configured softmax": _configured_softmax,
}


def calls(
    count: int,
    seed: int,
    grid: tuple[int, int],
    dram_banks: int,
    draws: Sequence[Callable[[Draw], Call]] = tuple(DRAWS.values()),
) -> Iterator[Call]:
    """Yields ``count`` calls, as many of each kind."""
    draw = Draw(Random(seed), grid, dram_banks)
    for number in range(count):
        yield draws[number % len(draws)](draw)
