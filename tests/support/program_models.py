"""Models of a few layers, as factories that a program can name: of maps, and of tokens with constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Maps(nn.Module):
    """Convolutions of every kind with batch norms, a residual, a pool, a join, and maps resized."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.SiLU(), nn.Conv2d(32, 32, 1)) for _ in range(3)
        )
        self.depth = nn.Conv2d(32, 32, 3, 1, 1, groups=32)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.head = nn.Linear(48, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        y = torch.cat([self.up(F.max_pool2d(self.depth(x), 2)), x], 1)
        return self.head(y.mean((2, 3))), F.interpolate(y, scale_factor=2.0)


class Tokens(nn.Module):
    """Attention with a mask and positions that the forward computes, split heads, and layer norms."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 64, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 64))
        self.norm = nn.LayerNorm(64)
        self.qkv = nn.Linear(64, 192)
        self.out = nn.Linear(64, 64)
        self.mlp = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x: Any) -> Any:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        b, n, c = x.shape
        x = x + torch.arange(n * c, dtype=x.dtype).reshape(1, n, c) / (n * c)
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
        mask = torch.zeros(n, n, dtype=x.dtype)
        mask[:4, 4:] = -100.0
        scores = (q * 32**-0.5) @ k.transpose(-2, -1) + mask
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm(x))


def maps(*shape: int) -> Any:
    return Maps(), torch.empty(shape)


def tokens(*shape: int) -> Any:
    return Tokens(), torch.empty(shape)


__all__ = ["Maps", "Tokens", "maps", "tokens"]
