"""What the calls of TTNN compute, in torch: a namespace in the place of ``ttnn``, for VALUES only.

It says nothing of memory: no tensor here is padded, placed or refused, and only buffers that TTNN would share are shared. What
a call does with the numbers is written from TTNN's documentation; shape, layout and dtype of its results are held against a
real TTNN on the virtual device by ``test_plan_values``. A virtual device computes nothing, so values are looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from ssinghal.core.memory_config import MemoryConfig
from ssinghal.core.tensors import TILE_EDGE, DType, round_up
from ssinghal.plan.layout_ops import keeps_tiles
from ssinghal.plan.placement import DRAM
from ssinghal.remedy.equivalence import InTorch


class Kind(NamedTuple):
    """A layout or dtype, as TTNN's enums tell them."""

    name: str


TILE, ROW_MAJOR = Kind("TILE"), Kind("ROW_MAJOR")
DTYPES = {dtype.value: Kind(dtype.name) for dtype in DType}
BLOCK_FLOATS = {"BFLOAT8_B", "BFLOAT4_B"}  # which TTNN has in tiles alone
INTEGERS = {"UINT8", "UINT16", "UINT32", "INT32"}


@dataclass(eq=False)
class Tensor:
    values: torch.Tensor
    layout: Kind = TILE
    dtype: Kind = DTYPES["bfloat16"]
    memory: MemoryConfig = DRAM

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def padded_shape(self) -> tuple[int, ...]:
        if self.layout is ROW_MAJOR:
            return self.shape
        *leading, height, width = (1, *self.shape)[-max(2, len(self.shape)) :]
        return (*leading, round_up(height, TILE_EDGE), round_up(width, TILE_EDGE))

    def buffer_address(self) -> int:
        return self.values.data_ptr()

    def deallocate(self) -> None:
        pass

    def is_allocated(self) -> bool:
        return True

    def memory_config(self) -> Any:
        return SimpleNamespace(buffer_type=self.memory.buffer.value)


class TorchTTNN:
    """``ttnn``: its functions on ``Tensor``; every other name is there for its name's sake."""

    TILE_LAYOUT, ROW_MAJOR_LAYOUT = TILE, ROW_MAJOR
    DRAM_MEMORY_CONFIG = BufferType = SimpleNamespace(L1="l1", DRAM="dram")
    Conv2dConfig = Conv2dSliceConfig = SimpleNamespace
    Conv2dL1Full = Op2DL1Full = "L1Full"
    TensorMemoryLayout = SimpleNamespace(**{name: name for name in ("HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED")})

    def __init__(self) -> None:
        self._calls = Calls(torch)
        for name, kind in DTYPES.items():
            setattr(self, name, kind)
        for part, names in SUBMODULES.items():
            module = ModuleType(part)
            for name in names:
                setattr(module, name, self._function(name))
            setattr(self, part, module)

    def get_memory_view(self, device: Any, kind: Any) -> Any:
        return SimpleNamespace(total_bytes_per_bank=2**20)

    def determine_expected_group_norm_dram_grid_size(self, **_: Any) -> Any:
        return SimpleNamespace(x=1, y=1)

    def __getattr__(self, name: str) -> Any:
        return self._function(name)

    def _function(self, name: str) -> Callable[..., Any]:
        function = getattr(self._calls, name)

        def call(*args: Any, output_tensor: Tensor | None = None, **kwargs: Any) -> Any:
            operands = [t for value in (*args, *kwargs.values()) for t in _tensors(value)]
            passed = {key: _values(value) for key, value in kwargs.items() if key not in PLACEMENT}
            returned = function(*map(_values, args), **passed)
            if output_tensor is not None:
                output_tensor.values.copy_(returned)
                return Tensor(output_tensor.values, output_tensor.layout, output_tensor.dtype)
            layout, dtype = _form(name, operands, args, kwargs)
            given = [x for x in (*args, *kwargs.values()) if isinstance(x, MemoryConfig)]
            memory = given[0] if given else operands[0].memory
            shares = SHARES.get(name, lambda x, result, layout: False)
            if isinstance(returned, (list, tuple)):
                return [Tensor(values.clone(), layout, dtype, memory) for values in returned]
            values = returned if shares(operands[0], returned, layout) else returned.contiguous().clone()
            return Tensor(values.reshape(returned.shape), layout, dtype, memory)

        return call


PLACEMENT = frozenset(
    "memory_config device core_grid compute_kernel_config num_out_blocks inplace output_layout dtype"
    " conv_config slice_config dram_slice_config applied_shard_scheme".split()
)
SUBMODULES = {
    "transformer": ("scaled_dot_product_attention", "split_query_key_value_and_split_heads", "concatenate_heads"),
    "experimental": ("conv3d",),
}
MADE_TILES = frozenset(
    "conv1d conv2d conv_transpose2d softmax max min prod linear matmul layer_norm rms_norm batch_norm"
    " scaled_dot_product_attention".split()
)
MADE_ROWS = frozenset("max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d upsample grid_sample conv3d".split())


def _form(name: str, operands: Sequence[Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Kind, Kind]:
    """Layout and dtype of a result: those of the first operand, but for calls that have rules of their own."""
    layout, dtype = operands[0].layout, operands[0].dtype
    if name in MADE_TILES or name in MADE_ROWS:
        layout = TILE if name in MADE_TILES else ROW_MAJOR
    if name == "to_layout":
        layout = args[1]
    if name in ("mean", "sum", "group_norm"):
        layout = kwargs.get("output_layout", TILE)
    if name == "embedding":
        layout, dtype = kwargs["layout"], operands[1].dtype
    if name == "typecast":
        dtype = args[1]
    if name == "where":
        dtype = operands[-1].dtype
    dtype = kwargs["dtype"] if isinstance(kwargs.get("dtype"), Kind) else dtype
    if name == "concat" and kwargs["dim"] >= len(operands[0].shape) - 2:
        is_cut = any(t.shape[kwargs["dim"]] % TILE_EDGE for t in operands)
        dtype = DTYPES["bfloat16"] if is_cut and dtype.name in BLOCK_FLOATS else dtype  # of tiles that TTNN cuts
    if layout is ROW_MAJOR and dtype.name in BLOCK_FLOATS:
        dtype = DTYPES["bfloat16"]
    return layout, dtype


SHARES: dict[str, Callable[[Tensor, torch.Tensor, Kind], bool]] = {
    "reshape": lambda x, result, layout: _is_view(x, tuple(result.shape)),
    "to_layout": lambda x, result, layout: x.layout == layout,
    "softmax_in_place": lambda x, result, layout: True,
    "copy": lambda x, result, layout: True,
}


def _is_view(x: Tensor, shape: tuple[int, ...]) -> bool:
    """Rows stay rows, or tiles tiles."""
    return keeps_tiles(x.shape, shape) if x.layout is TILE else x.shape[-1] == shape[-1]


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, (list, tuple)) and not isinstance(value, Kind):
        return [t for item in value for t in _tensors(item)]
    return [value] if isinstance(value, Tensor) else []


def _values(value: Any) -> Any:
    if isinstance(value, list):
        return [_values(item) for item in value]
    return value.values if isinstance(value, Tensor) else value


class Calls(InTorch):
    """On torch's tensors. Names and arguments are TTNN's."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch)
        for name, function in ELEMENTWISE.items():
            setattr(self, name, function)

    # Form -------------------------------------------------------------------------------------------------------------------

    def to_memory_config(self, x: Any, memory: MemoryConfig | None = None) -> Any:
        return x

    def typecast(self, x: Any, dtype: Kind) -> Any:
        return x.to(torch.int64) if dtype.name in INTEGERS else x.double()

    def slice(self, x: Any, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] = (), **_: Any) -> Any:
        steps = steps or [1] * x.dim()
        return x[tuple(slice(*cut) for cut in zip(starts, ends, steps, strict=True))]

    def pad(self, x: Any, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=value)

    def expand(self, x: Any, size: Sequence[int]) -> Any:
        return x.expand(*size)

    def repeat(self, x: Any, times: Sequence[int]) -> Any:
        return x.repeat(*times)

    def repeat_interleave(self, x: Any, times: int, dim: int) -> Any:
        return x.repeat_interleave(times, dim)

    def roll(self, x: Any, shifts: int | Sequence[int], dims: Sequence[int] | None = None) -> Any:
        return torch.roll(x, shifts, dims)

    def transpose(self, x: Any, a: int, b: int) -> Any:
        return x.transpose(a, b)

    def from_device(self, x: Any) -> Any:
        return x

    # Rows -------------------------------------------------------------------------------------------------------------------

    def embedding(self, indices: Any, weight: Any, layout: Kind) -> Any:
        return F.embedding(indices, weight)

    def softmax(self, x: Any, dim: int = -1) -> Any:
        return x.softmax(dim)

    def softmax_in_place(self, x: Any, dim: int = -1) -> Any:
        assert x.dim() == 4, "TTNN takes no other rank"
        return x.copy_(x.softmax(dim))

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return x.argmax(dim, keepdim)

    def cumsum(self, x: Any, dim: int) -> Any:
        return x.cumsum(dim)

    def layer_norm(self, x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
        """Of the last dim, whatever weight and bias are."""
        return F.layer_norm(x, x.shape[-1:], _flat(weight), _flat(bias), epsilon)

    def rms_norm(self, x: Any, weight: Any, epsilon: float) -> Any:
        return F.rms_norm(x, x.shape[-1:], _flat(weight), epsilon)

    def batch_norm(self, x: Any, training: bool, eps: float, momentum: float, **vectors: Any) -> Any:
        assert all(v is None or tuple(v.shape) == (1, x.shape[1], 1, 1) for v in vectors.values())
        weight, bias, mean, variance = (_flat(vectors[name]) for name in ("weight", "bias", "running_mean", "running_var"))
        return F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)

    def group_norm(self, x: Any, num_groups: int, epsilon: float, weight: Any, bias: Any) -> Any:
        """[N, 1, pixels, C]."""
        made = F.group_norm(x.movedim(-1, 1), num_groups, _flat(weight), _flat(bias), epsilon)
        return made.movedim(1, -1)

    def _reduced(self, name: str, x: Any, dim: int | list[int] | None, keepdim: bool) -> Any:
        return getattr(torch, name)(x, list(range(x.dim())) if dim is None else dim, keepdim=keepdim)

    def mean(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return self._reduced("mean", x, dim, keepdim)

    def sum(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return self._reduced("sum", x, dim, keepdim)

    def max(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return self._reduced("amax", x, dim, keepdim)

    def min(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return self._reduced("amin", x, dim, keepdim)

    # Products -----------------------------------------------------------------------------------------------------------------

    def matmul(self, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return x @ weight if bias is None else x @ weight + bias

    def addmm(self, bias: Any, a: Any, b: Any, alpha: float, beta: float) -> Any:
        return torch.addmm(bias, a, b, alpha=alpha, beta=beta)

    def scaled_dot_product_attention(
        self, q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = True, scale: float | None = None
    ) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal, scale=scale)

    def split_query_key_value_and_split_heads(self, x: Any, num_heads: int, transpose_key: bool = True) -> Any:
        """[batch, length, 3 x heads x size], queries before keys before values, to [batch, heads, length, size] of each."""
        q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in x.chunk(3, -1))
        return [q, k.mT if transpose_key else k, v]

    def concatenate_heads(self, x: Any) -> Any:
        """[batch, heads, length, size] to [batch, length, heads x size]."""
        return x.transpose(1, 2).flatten(2)

    # Windows ------------------------------------------------------------------------------------------------------------------

    def conv2d(self, **given: Any) -> Any:
        return self._convolved(F.conv2d, given, (given["input_height"], given["input_width"]))

    def conv1d(self, **given: Any) -> Any:
        return self._convolved(F.conv1d, given, (given["input_length"],))

    def conv_transpose2d(self, **given: Any) -> Any:
        more = {"output_padding": tuple(given["output_padding"])}
        return self._convolved(F.conv_transpose2d, given, (given["input_height"], given["input_width"]), **more)

    def _convolved(self, function: Callable[..., Any], given: dict[str, Any], size: Sequence[int], **more: Any) -> Any:
        """Rows of channels, to rows of channels. The weight is torch's."""
        x = given["input_tensor"].reshape(given["batch_size"], *size, given["in_channels"]).movedim(-1, 1)
        how = {name: given[name] for name in ("stride", "padding", "dilation", "groups")}
        made = function(x, given["weight_tensor"], _flat(given["bias_tensor"]), **how, **more)
        assert made.shape[1] == given["out_channels"]
        return made.movedim(1, -1).reshape(1, 1, -1, made.shape[1])

    def conv3d(self, input_tensor: Any, weight_tensor: Any, bias_tensor: Any, kernel_size: Sequence[int], **how: Any) -> Any:
        """[N, D, H, W, C], the weight as [positions of the kernel x channels, out channels]."""
        x = input_tensor.movedim(-1, 1)
        weight = weight_tensor.reshape(*kernel_size, -1, how["output_channels"]).permute(4, 3, 0, 1, 2)
        if how.get("padding_mode", "zeros") == "replicate":
            x, how["padding"] = F.pad(x, [n for p in reversed(how["padding"]) for n in (p, p)], mode="replicate"), 0
        assert how["groups"] == 1, "a prepared weight is dense"
        where = {name: how[name] for name in ("stride", "padding", "dilation")}
        return F.conv3d(x, weight, _flat(bias_tensor), **where).movedim(1, -1)

    def max_pool2d(self, x: Any, *, ceil_mode: bool, dilation: Any, **how: Any) -> Any:
        return self._pooled(F.max_pool2d, x, how, ceil_mode=ceil_mode, dilation=dilation)

    def avg_pool2d(self, x: Any, *, ceil_mode: bool, count_include_pad: bool, divisor_override: Any, **how: Any) -> Any:
        more = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
        return self._pooled(F.avg_pool2d, x, how, ceil_mode=ceil_mode, **more)

    def adaptive_avg_pool2d(self, x: Any, **how: Any) -> Any:
        return self._pooled(F.adaptive_avg_pool2d, x, how)

    def adaptive_max_pool2d(self, x: Any, **how: Any) -> Any:
        return self._pooled(F.adaptive_max_pool2d, x, how)

    def _pooled(self, function: Callable[..., Any], x: Any, how: dict[str, Any], **more: Any) -> Any:
        maps = x.reshape(how["batch_size"], how["input_h"], how["input_w"], how["channels"]).movedim(-1, 1)
        given = {name: how[name] for name in ("kernel_size", "stride", "padding", "output_size") if name in how}
        return function(maps, **given, **more).movedim(1, -1).reshape(1, 1, -1, how["channels"])

    def grid_sample(self, x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
        return F.grid_sample(x.movedim(-1, 1), grid, mode, padding_mode, align_corners).movedim(1, -1)


def _flat(vector: Any) -> Any:
    return None if vector is None else vector.reshape(-1)


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    """TTNN has no bool: 1 for true."""
    return lambda x, *others: function(x, *others).to(x.dtype)


def _where(condition: Any, a: Any, b: Any) -> Any:
    return torch.where(condition != 0, a, b)


def _fill(x: Any, value: float) -> Any:
    return torch.full_like(x, value)


def _gelu(x: Any, fast_and_approximate_mode: bool = True) -> Any:
    return F.gelu(x, approximate="tanh" if fast_and_approximate_mode else "none")


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(torch, name)
        for name in (
            "relu sigmoid tanh exp expm1 erf sin cos floor ceil round sign log log1p log2 sqrt rsqrt reciprocal neg abs square"
            " clamp pow div maximum minimum addcmul clone"
        ).split()
    },
    **{name: getattr(F, name) for name in "silu mish hardswish relu6 hardsigmoid softplus leaky_relu hardtanh elu".split()},
    **{
        name: _truth(getattr(torch, name))
        for name in "eq ne gt ge lt le logical_not logical_and logical_or logical_xor".split()
    },
    **{"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div},
    **{"rsub": lambda x, other: other - x, "rpow": lambda x, base: torch.pow(base, x)},
    **{"gelu": _gelu, "where": _where, "fill": _fill, "copy": lambda source, target: target.copy_(source)},
}

__all__ = ["DTYPES", "ROW_MAJOR", "TILE", "Tensor", "TorchTTNN"]
