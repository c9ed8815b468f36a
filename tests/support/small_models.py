"""Small models of torch, of the parts that models are made of: name -> (model, inputs). Inputs are shapes, or tensors.

They are small enough to be run in torch in no time, and TTNN takes every one of them: maps of groups in whole tiles of
channels, heads of whole tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.support.real_traces import Net

Model = tuple[nn.Module, tuple[Any, ...]]
MAP = (2, 6, 8, 10)


def of(forward: Callable[..., Any], *inputs: Any, **parts: Any) -> Model:
    return Net(forward, **parts), inputs


# Convolutions, norms, pools ------------------------------------------------------------------------------------------------


def _bottleneck(m: Any, x: Any) -> Any:
    y = F.relu(m.n1(m.c1(x)))
    y = F.relu(m.n2(m.c2(y)))
    return F.relu_(m.n3(m.c3(y)) + m.n4(m.c4(x)))


def _separable(m: Any, x: Any) -> Any:
    return F.hardswish(m.n(m.point(F.silu(m.depth(x)))))


def _pools(m: Any, x: Any) -> Any:
    a = F.max_pool2d(x, 3, 2, 1)
    b = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    return torch.cat([a, b], 1), F.adaptive_avg_pool2d(x, 1).flatten(1), F.max_pool2d(x, 2, ceil_mode=True)


def _spp(m: Any, x: Any) -> Any:
    """SPPF: pools of pools, joined by channels."""
    y = [m.c(x)]
    y.extend(F.max_pool2d(y[-1], 5, 1, 2) for _ in range(3))
    return torch.cat(y, 1)


def _pyramid(m: Any, x: Any) -> Any:
    low = m.down(x)
    return torch.cat([F.interpolate(low, scale_factor=2.0), x], dim=1)


def _squeeze_and_excite(m: Any, x: Any) -> Any:
    scale = x.mean((2, 3), keepdim=True)
    return x * torch.sigmoid(m.up(F.relu(m.down(scale)))) + x.mean((-2, -1)).mean(-1)[:, None, None, None]


def _two_heads(m: Any, x: Any, y: Any) -> Any:
    return m.na(m.conv(x)), m.nb(m.conv(y))


MAPS: dict[str, Model] = {
    "bottleneck": of(
        _bottleneck, (2, 16, 8, 6),
        c1=nn.Conv2d(16, 8, 1, bias=False), n1=nn.BatchNorm2d(8), c2=nn.Conv2d(8, 8, 3, 2, 1, bias=False), n2=nn.BatchNorm2d(8),
        c3=nn.Conv2d(8, 32, 1), n3=nn.BatchNorm2d(32), c4=nn.Conv2d(16, 32, 1, 2), n4=nn.BatchNorm2d(32, eps=0.1),
    ),
    "separable": of(
        _separable, (1, 32, 8, 6), depth=nn.Conv2d(32, 32, 3, 1, 1, groups=32), point=nn.Conv2d(32, 8, 1), n=nn.BatchNorm2d(8)
    ),
    "grouped": of(lambda m, x: m.c(x), (2, 16, 9, 7), c=nn.Conv2d(16, 24, (3, 1), (2, 1), (1, 0), groups=4, dilation=(2, 1))),
    "one head before two norms": of(
        _two_heads, (1, 8, 6, 6), (1, 8, 6, 6), conv=nn.Conv2d(8, 16, 3), na=nn.BatchNorm2d(16), nb=nn.BatchNorm2d(16)
    ),
    "pools": of(_pools, (2, 16, 9, 8)),
    "pools of pools": of(_spp, (2, 8, 7, 6), c=nn.Conv2d(8, 8, 1)),
    "pyramid": of(_pyramid, (2, 8, 6, 8), down=nn.Conv2d(8, 16, 3, 2, 1)),
    "squeeze and excite": of(_squeeze_and_excite, (2, 16, 6, 7), down=nn.Conv2d(16, 4, 1), up=nn.Conv2d(4, 16, 1)),
    "bilinear": of(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), (2, 32, 5, 6)),
    "to its own size": of(lambda m, x: F.interpolate(x, (8, 10), mode="bilinear") + x, MAP),
    "group norm": of(lambda m, x: F.silu(m.n(x)), (2, 64, 4, 6), n=nn.GroupNorm(8, 64)),
    "norm alone": of(lambda m, x: m.n(x).relu(), (2, 8, 6, 6), n=nn.BatchNorm2d(8)),
    "transposed": of(lambda m, x: F.relu(m.c(x)), (2, 8, 5, 6), c=nn.ConvTranspose2d(8, 16, 2, 2)),
    "one dim": of(lambda m, x: m.c(F.gelu(x)), (2, 8, 20), c=nn.Conv1d(8, 16, 3, padding=1)),
    "padded in words": of(
        lambda m, x: m.c(m.d(x)), MAP, c=nn.Conv2d(6, 6, 3, padding="valid"), d=nn.Conv2d(6, 6, 3, padding="same")
    ),
    "padded before": of(lambda m, x: m.c(F.pad(x, (1, 1, 2, 2))), MAP, c=nn.Conv2d(6, 8, 3)),
    "padded on one side": of(lambda m, x: m.c(F.pad(x, (0, 1, 1, 0), value=0.5)), MAP, c=nn.Conv2d(6, 8, 3)),
}  # fmt: skip


# Volumes -------------------------------------------------------------------------------------------------------------------


def _depth_to_space(m: Any, x: Any) -> Any:
    """Mochi's: channels by a linear layer, spread over twice the frames, rows and columns."""
    x = m.proj(x.permute(0, 2, 3, 4, 1)).permute(0, 4, 1, 2, 3)
    n, _, t, h, w = x.shape
    x = x.view(n, -1, 2, 2, 2, t, h, w).permute(0, 1, 5, 2, 6, 3, 7, 4).contiguous()
    return F.silu(m.after(x.view(n, -1, 2 * t, 2 * h, 2 * w)[:, :, 1:]))


def _in_chunks(m: Any, x: Any) -> Any:
    first, second = x.chunk(2, dim=2)
    return torch.cat([m.c(first), m.c(torch.cat([first[:, :, -2:], second], 2))], 2)


def _frames_normed(m: Any, x: Any) -> Any:
    """A group norm of each frame by itself."""
    n, c, t, h, w = x.shape
    y = m.n(x.permute(0, 2, 1, 3, 4).reshape(n * t, c, h, w))
    return y.unflatten(0, (n, t)).permute(0, 2, 1, 3, 4)


VOLUMES: dict[str, Model] = {
    "volume": of(lambda m, x: F.relu(m.c(x)), (2, 32, 4, 5, 6), c=nn.Conv3d(32, 16, 3, padding=1)),
    "volume of few channels": of(lambda m, x: m.c(x), (1, 12, 4, 5, 6), c=nn.Conv3d(12, 8, (1, 3, 3), (1, 2, 2), (0, 1, 1))),
    "volume in groups": of(
        lambda m, x: F.relu(m.b(m.a(x))), (1, 64, 3, 5, 6), a=nn.Conv3d(64, 10, 3, padding=1, groups=2),
        b=nn.Conv3d(10, 10, (1, 3, 3), groups=10),
    ),
    "depth to space": of(_depth_to_space, (1, 8, 2, 3, 4), proj=nn.Linear(8, 32), after=nn.Conv3d(4, 4, 1)),
    "causal": of(lambda m, x: m.c(F.pad(x, (1, 1, 1, 1, 2, 0), mode="replicate")), (1, 32, 3, 5, 6), c=nn.Conv3d(32, 32, 3)),
    "edges of frames": of(
        lambda m, x: m.c(F.pad(x, (1, 1, 1, 1, 0, 0), mode="replicate")), (1, 8, 3, 5, 6), c=nn.Conv3d(8, 8, 3)
    ),
    "in chunks": of(_in_chunks, (1, 32, 8, 5, 6), c=nn.Conv3d(32, 8, 3)),
    "frames normed": of(_frames_normed, (1, 32, 2, 4, 4), n=nn.GroupNorm(4, 32)),
    "volume nearest": of(lambda m, x: F.interpolate(x, scale_factor=(1, 2, 2)), (1, 4, 2, 3, 4)),
    "volume normed": of(lambda m, x: m.n(m.c(x)), (1, 8, 3, 4, 5), c=nn.Conv3d(8, 8, 3, padding=1), n=nn.BatchNorm3d(8)),
}  # fmt: skip


# Tokens, attention ---------------------------------------------------------------------------------------------------------


def _patches(m: Any, x: Any) -> Any:
    """ViT: patches as tokens, a class token before them, positions added."""
    x = m.proj(x).flatten(2).transpose(1, 2)
    x = torch.cat([m.token.expand(x.shape[0], -1, -1), x], dim=1) + m.places
    x = x + m.mlp(m.norm(x))
    return m.head(x[:, 0])


def _own_attention(m: Any, x: Any) -> Any:
    """Torch's, which has the tokens before the batch inside."""
    return x + m.a(x, x, x, need_weights=False)[0]


def _windows(m: Any, x: Any) -> Any:
    """Swin: shifted windows with a bias of places and a mask of constants."""
    b, h, w, c = x.shape
    y = F.pad(m.norm(x), (0, 0, 0, -w % 4, 0, -h % 4))
    rows, columns = y.shape[1] // 4, y.shape[2] // 4
    y = torch.roll(y, (-2, -2), (1, 2))
    y = y.view(b, rows, 4, columns, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    qkv = m.qkv(y).reshape(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    attn = (q * 32**-0.5) @ k.transpose(-2, -1) + m.places.unsqueeze(0)
    mask = torch.zeros(rows * columns, 16, 16)
    mask[0, :8, 8:] = -100.0
    attn = attn.view(b, rows * columns, 2, 16, 16) + mask[None, :, None]
    attn = F.softmax(attn.view(-1, 2, 16, 16), dim=-1)
    y = m.out((attn @ v).transpose(1, 2).reshape(-1, 16, c))
    y = y.view(b, rows, columns, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, rows * 4, columns * 4, c)
    y = torch.roll(y, (2, 2), (1, 2))
    return x + y[:, :h, :w, :].contiguous()


def _merging(m: Any, x: Any) -> Any:
    """Swin: four neighbours become one patch."""
    parts = [x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
    return m.reduce(m.norm(torch.cat(parts, -1)))


def _area(m: Any, x: Any) -> Any:
    """YOLO12: heads and their channels before the tokens; areas of the map as a batch; the positions by a convolution."""
    b, c, h, w = x.shape
    qkv = m.qkv(x).flatten(2).transpose(1, 2)
    qkv = qkv.reshape(b * 2, h * w // 2, c * 3)
    n = qkv.shape[1]
    q, k, v = qkv.view(b * 2, n, 2, 96).permute(0, 2, 3, 1).split([32, 32, 32], dim=2)
    attn = (q.transpose(-2, -1) @ k) * 32**-0.5
    attn = attn.softmax(dim=-1)
    y = v @ attn.transpose(-2, -1)
    y, v = y.permute(0, 3, 1, 2), v.permute(0, 3, 1, 2)
    y, v = y.reshape(b, n * 2, c), v.reshape(b, n * 2, c)
    y = y.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous()
    v = v.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous()
    return m.proj(y + m.places(v))


def _reduced_attention(m: Any, x: Any) -> Any:
    """Segformer: keys and values of a smaller map, by torch's own attention; then a depthwise convolution between layers."""
    b, c, h, w = x.shape
    tokens = x.flatten(2).transpose(1, 2)
    small = m.norm(m.reduce(tokens.permute(0, 2, 1).reshape(b, c, h, w)).reshape(b, c, -1).permute(0, 2, 1))
    q, k, v = (f(t).view(b, -1, 2, c // 2).transpose(1, 2) for f, t in ((m.q, tokens), (m.k, small), (m.v, small)))
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, -1, c)
    tokens = tokens + m.out(y)
    y = m.up(tokens)
    y = m.depth(y.transpose(1, 2).view(b, -1, h, w)).flatten(2).transpose(1, 2)
    return (tokens + m.down(F.gelu(y))).reshape(b, h, w, -1).permute(0, 3, 1, 2).contiguous()


def _fuse_heads(m: Any, x: Any, y: Any) -> Any:
    """Segformer's head: maps of tokens brought to one size and joined, the deepest first."""
    maps = []
    for layer, t in ((m.a, x), (m.b, y)):
        b, _, h, w = t.shape
        t = layer(t.flatten(2).transpose(1, 2)).permute(0, 2, 1).reshape(b, -1, h, w)
        maps.append(F.interpolate(t, size=x.shape[2:], mode="bilinear", align_corners=False))
    return F.relu(m.n(m.fuse(torch.cat(maps[::-1], dim=1))))


def _rotary(m: Any, x: Any) -> Any:
    """Halves turned by angles that are constants; RMS norms."""
    q = m.norm(m.q(x)).unflatten(-1, (2, 32)).transpose(1, 2)
    angles = torch.outer(torch.arange(12.0), 1.0 / 100 ** (torch.arange(0, 32, 2) / 32))
    angles = torch.cat([angles, angles], -1)
    first, second = q.chunk(2, -1)
    q = q * angles.cos() + torch.cat([-second, first], -1) * angles.sin()
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)


def _distances(m: Any, x: Any) -> Any:
    """YOLO's head: the expected distance to each side, by a softmax over bins."""
    b, _, a = x.shape
    bins = torch.arange(8.0)
    p = x[:, :32].view(b, 4, 8, a).transpose(2, 1).softmax(1)
    d = (p * bins[:, None, None]).sum(1)
    lt, rb = d.chunk(2, 1)
    return torch.cat([(rb + lt) / 2 - m.anchors, lt + rb, x[:, 32:].sigmoid()], 1)


QKV = {"qkv": nn.Linear(64, 192), "out": nn.Linear(64, 64), "norm": nn.LayerNorm(64)}
TRANSFORMERS: dict[str, Model] = {
    "patches": of(
        _patches, (2, 3, 16, 24), proj=nn.Conv2d(3, 64, 8, 8), token=torch.empty(1, 1, 64), places=torch.empty(1, 7, 64),
        norm=nn.LayerNorm(64), mlp=nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)), head=nn.Linear(64, 10),
    ),
    "windows": of(_windows, (2, 7, 10, 64), places=torch.empty(2, 16, 16), **QKV),
    "own attention": of(_own_attention, (2, 40, 64), a=nn.MultiheadAttention(64, 2, bias=False, batch_first=True)),
    "merging": of(_merging, (2, 6, 8, 16), norm=nn.LayerNorm(64), reduce=nn.Linear(64, 32, bias=False)),
    "area": of(
        _area, (2, 64, 6, 4), qkv=nn.Conv2d(64, 192, 1), proj=nn.Conv2d(64, 64, 1), places=nn.Conv2d(64, 64, 5, 1, 2, groups=64)
    ),
    "reduced attention": of(
        _reduced_attention, (2, 64, 4, 6), reduce=nn.Conv2d(64, 64, 2, 2), norm=nn.LayerNorm(64), q=nn.Linear(64, 64),
        k=nn.Linear(64, 64), v=nn.Linear(64, 64), out=nn.Linear(64, 64), up=nn.Linear(64, 96), down=nn.Linear(96, 64),
        depth=nn.Conv2d(96, 96, 3, 1, 1, groups=96),
    ),
    "fuse heads": of(
        _fuse_heads, (2, 16, 8, 12), (2, 24, 4, 6), a=nn.Linear(16, 32), b=nn.Linear(24, 32), n=nn.BatchNorm2d(32),
        fuse=nn.Conv2d(64, 32, 1, bias=False),
    ),
    "rotary": of(_rotary, (2, 12, 64), q=nn.Linear(64, 64, bias=False), norm=nn.RMSNorm(64, eps=1e-6)),
    "distances": of(_distances, (2, 40, 21), anchors=torch.empty(2, 21)),
    "embedding": of(
        lambda m, i: m.n(m.e(i) + m.p), torch.arange(24).reshape(2, 12) % 7, e=nn.Embedding(10, 64), p=torch.empty(12, 64),
        n=nn.LayerNorm(64),
    ),
}  # fmt: skip

MODELS: dict[str, Model] = {**MAPS, **VOLUMES, **TRANSFORMERS}

__all__ = ["MAP", "MODELS", "Model", "of"]
