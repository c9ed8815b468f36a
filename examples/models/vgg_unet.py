"""A U-Net whose encoder is torchvision's VGG-19 without its last pool: masks of one channel, here for images of 256 x 256.

PYTHONPATH=examples/models ssinghal plan vgg_unet:vgg_unet --input 1,3,256,256 --board n150,p150
"""

from __future__ import annotations

import torch
import torchvision
from torch import nn

BLOCKS = (6, 13, 26, 39, 52)  # ends of the encoder's blocks among VGG-19's features; each but the last is followed by a pool


def convolutions(channels: int, results: int) -> nn.Sequential:
    """Two convolutions of 3 x 3, each with its norm and activation."""
    return nn.Sequential(
        *(nn.Conv2d(channels, results, 3, padding=1), nn.BatchNorm2d(results), nn.ReLU()),
        *(nn.Conv2d(results, results, 3, padding=1), nn.BatchNorm2d(results), nn.ReLU()),
    )


class Up(nn.Module):  # type: ignore[misc]
    """Twice the height and width, joined with the encoder's map of that size."""

    def __init__(self, channels: int, results: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, results, 2, stride=2)
        self.convolutions = convolutions(2 * results, results)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return self.convolutions(torch.cat([self.up(x), skip], 1))


class VggUnet(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        features = torchvision.models.vgg19_bn(weights=None).features
        self.encoder = nn.ModuleList(features[start:end] for start, end in zip((0, *BLOCKS), BLOCKS, strict=False))
        self.decoder = nn.ModuleList(Up(*sizes) for sizes in ((512, 512), (512, 256), (256, 128), (128, 64)))
        self.head = nn.Conv2d(64, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = []
        for block in self.encoder:
            x = block(x)
            maps.append(x)
        for up, skip in zip(self.decoder, reversed(maps[:-1]), strict=True):
            x = up(x, skip)
        return torch.sigmoid(self.head(x))


def vgg_unet(*shape: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model and an input, of shape [1, 3, 256, 256] if none is given."""
    return VggUnet(), (torch.empty(*(shape or (1, 3, 256, 256))),)
