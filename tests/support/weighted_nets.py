"""Small models with every kind of weight that TTNN prepares, as factories for captures."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def _block(inner: int, outer: int, groups: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(outer), nn.ReLU())


class UNet(nn.Module):
    """Two levels, with depthwise and grouped convolutions, and transposed ones up."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.inner = _block(3, 32), _block(64, 128, groups=4)
        self.down = nn.Conv2d(32, 64, 2, stride=2)
        self.deep = nn.Conv2d(128, 128, 5, padding=2, groups=128)
        self.up = nn.ConvTranspose2d(128, 32, 2, stride=2)
        self.merge, self.head = _block(64, 40), nn.Conv2d(40, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.stem(x)
        deep = self.deep(self.inner(self.down(wide)))
        return self.head(self.merge(torch.cat([wide, self.up(deep)], 1)))


def unet() -> tuple[nn.Module, torch.Tensor]:
    return UNet(), torch.empty(1, 3, 64, 64)


def generator() -> tuple[nn.Module, torch.Tensor]:
    """Transposed convolutions alone: with and without bias, in groups, with output padding, one channel for each."""
    layers = [
        nn.ConvTranspose2d(64, 256, 4),
        nn.ReLU(),
        nn.ConvTranspose2d(256, 128, 4, stride=2, padding=1, bias=False),
        nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 3, stride=2, padding=1, output_padding=1, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 64, 3, stride=1, padding=1, groups=64, bias=False),
        nn.Tanh(),
    ]
    return nn.Sequential(*layers), torch.empty(1, 64, 4, 4)


class Listener(nn.Module):
    """Convolutions over rows of samples, and two linear layers on what they hear."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 64, 10, stride=5, bias=False),
            nn.GELU(),
            nn.Conv1d(64, 96, 3, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv1d(96, 96, 5, padding=2, groups=96),
            nn.Conv1d(96, 128, 1, stride=2),
        )
        self.wide, self.words = nn.Linear(128, 256), nn.Linear(256, 35, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.words(F.relu(self.wide(self.layers(x).transpose(1, 2))))


def listener() -> tuple[nn.Module, torch.Tensor]:
    return Listener(), torch.empty(1, 1, 4000)


class Block(nn.Module):
    """Attention and two linear layers, each after a norm."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        x = x + self.out(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class ViT(nn.Module):
    """Patches by a convolution, two blocks of attention, a head."""

    def __init__(self, size: int = 96) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 16, stride=16)
        self.blocks = nn.Sequential(Block(size, 3), Block(size, 3))
        self.head = nn.Linear(size, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


def vit() -> tuple[nn.Module, torch.Tensor]:
    return ViT(), torch.empty(1, 3, 128, 128)
