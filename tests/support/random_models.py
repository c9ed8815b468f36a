"""Random programs of torch: calls that look at dims, cut, join and turn, one after another on whatever came before."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch.nn import functional as F

from tests.support.real_traces import Net

SMALL = 2**11  # elements
SHAPES = ((2, 6, 4, 5), (1, 8, 4, 6), (2, 3, 8), (12, 10), (2, 1, 4, 3, 2), (3, 64, 32), (1, 32, 4, 2))
Tensor = Any
Call = Callable[[Random, Tensor], Tensor]


def random_model(seed: int, steps: int = 10) -> tuple[Net, tuple[int, ...]]:
    """The model, and the shape of its input. The same seed is the same program."""
    shape = Random(seed).choice(SHAPES)
    return Net(lambda m, x: _run(Random(seed), x, steps)), shape


def _run(r: Random, x: Tensor, steps: int) -> list[Tensor]:
    """The last tensors are the results; in each step any of those before may be taken."""
    made = [x]
    while len(made) <= steps:
        source = made[-1] if r.random() < 0.7 else r.choice(made)
        result = r.choice(CALLS)(r, source)
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if 1 < tensor.numel() <= SMALL and 1 <= tensor.dim() <= 6:
                made.append(tensor)
    return made[-4:]


def _dim(r: Random, x: Tensor) -> int:
    return r.randrange(-x.dim(), x.dim())


def _dims(r: Random, x: Tensor) -> list[int]:
    return r.sample(range(x.dim()), r.randint(1, x.dim()))


def _shape(r: Random, x: Tensor) -> list[int]:
    sizes, left = [], x.numel()
    while left > 1 and len(sizes) < 5:
        sizes.append(r.choice([n for n in range(1, left + 1) if left % n == 0]))
        left //= sizes[-1]
    return [*sizes, left] if left > 1 or not sizes else sizes


def _permuted(r: Random, x: Tensor) -> Tensor:
    return x.permute(r.sample(range(x.dim()), x.dim()))


def _sliced(r: Random, x: Tensor) -> Tensor:
    dim = r.randrange(x.dim())
    start = r.randrange(x.shape[dim])
    return x[(slice(None),) * dim + (slice(start, r.randint(start + 1, x.shape[dim]), r.choice((1, 1, 2))),)]


def _split(r: Random, x: Tensor) -> Tensor:
    dim = _dim(r, x)
    return x.split(r.randint(1, x.shape[dim]), dim)


def _joined(r: Random, x: Tensor) -> Tensor:
    """With the same shape lying in another order."""
    order = r.sample(range(x.dim()), x.dim())
    other = x.permute(order).exp().permute([order.index(d) for d in range(x.dim())])
    parts = r.choice(([x, other], [other, x, x]))
    return torch.cat(parts, _dim(r, x)) if r.random() < 0.7 else torch.stack(parts, r.randrange(x.dim() + 1))


def _broadcast(r: Random, x: Tensor) -> Tensor:
    """With what some dims are reduced to, or with itself turned."""
    small = x.amax(_dims(r, x), keepdim=True)
    if r.random() < 0.3:
        small = small.reshape(small.shape[next((i for i, s in enumerate(small.shape) if s > 1), x.dim() - 1) :])
    function = r.choice((torch.add, torch.mul, torch.sub, torch.maximum))
    return function(x, small) if r.random() < 0.7 else function(small, x)


def _number(r: Random, x: Tensor) -> Tensor:
    return r.choice((lambda: x + 1.5, lambda: 2 - x, lambda: x * 0.5, lambda: x / 3, lambda: torch.clamp(x, -1, 1)))()


def _reduced(r: Random, x: Tensor) -> Tensor:
    dims = _dims(r, x)
    return r.choice((torch.mean, torch.amax))(x, dims, keepdim=len(dims) == x.dim() or r.random() < 0.5)


def _product(r: Random, x: Tensor) -> Tensor:
    if x.dim() < 2:
        return x.tanh()
    turned = x.transpose(-2, -1)
    return r.choice((lambda: x @ turned, lambda: turned @ x))() / math.sqrt(x.numel())


def _copied(r: Random, x: Tensor) -> Tensor:
    """Written in place behind the copy: the one that was copied stays as it is, and both are read again."""
    y = r.choice(
        (lambda: x.clone(), lambda: x.transpose(0, -1).contiguous(), lambda: x.permute(*range(x.dim())[::-1]).reshape(-1))
    )()
    if y.data_ptr() == x.data_ptr():
        return y.relu()
    return [F.silu(y, inplace=True), x + 1]


def _weight(r: Random, *shape: int) -> Tensor:
    """A constant, which is there from the start as weights are."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(r.randrange(1000))) / math.sqrt(math.prod(shape[1:]))


def _convolved(r: Random, x: Tensor) -> Tensor:
    """Of 1 to 3 spatial dims, perhaps padded before, perhaps with a norm behind it."""
    if not 3 <= x.dim() <= 5 or x.shape[1] > 64:
        return x.tanh()
    dims, c = x.dim() - 2, x.shape[1]
    groups = r.choice((1, 1, c)) if dims == 2 else 1
    kernel = [r.choice((1, min(3, size))) for size in x.shape[2:]]
    padding = [r.randint(0, k // 2) for k in kernel]
    if r.random() < 0.3:
        x, padding = F.pad(x, [n for p in reversed(padding) for n in (p, p)]), [0] * dims
    out = groups * r.choice((1, 2, 3))
    weight, bias = _weight(r, out, c // groups, *kernel), r.choice((None, _weight(r, out)))
    y = (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, weight, bias, r.choice((1, 2)), padding, 1, groups)
    if dims == 2 and r.random() < 0.4:
        y = F.batch_norm(y, _weight(r, out), _weight(r, out).abs() + 0.5, _weight(r, out), _weight(r, out))
    return y


def _map(r: Random, x: Tensor) -> Tensor:
    if x.dim() != 4:
        return x.tanh()
    c, h, w = x.shape[1:]
    made = [
        lambda: F.interpolate(x, scale_factor=2.0),
        lambda: F.adaptive_avg_pool2d(x, 1),
        lambda: x * x.mean((2, 3), keepdim=True),
    ]
    if h > 1 and w > 1:
        made += [lambda: F.max_pool2d(x, 2, r.choice((1, 2))), lambda: F.avg_pool2d(x, 2)]
    if c % 32 == 0:
        made += [
            lambda: F.group_norm(x, r.choice((1, 4)), _weight(r, c), _weight(r, c)),
            lambda: F.interpolate(x, scale_factor=2, mode="bilinear"),
        ]
    return r.choice(made)()


def _linear(r: Random, x: Tensor) -> Tensor:
    out = r.choice((4, 12, 32))
    if x.dim() < 2:
        return x.tanh()
    return F.linear(x, _weight(r, out, x.shape[-1]), r.choice((None, _weight(r, out))))


def _with_constant(r: Random, x: Tensor) -> Tensor:
    """A constant of some of the dims, of the last ones, or of all."""
    sizes = [s if r.random() < 0.5 else 1 for s in x.shape][r.randrange(x.dim()) :]
    return r.choice((torch.add, torch.mul))(x, _weight(r, *sizes))


def _normed(r: Random, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


CALLS: tuple[Call, ...] = (
    _permuted, _permuted, _sliced, _split, _joined, _joined, _broadcast, _broadcast, _number, _reduced, _product, _copied,
    _normed, _convolved, _convolved, _map, _map, _linear, _with_constant,
    lambda r, x: x.transpose(_dim(r, x), _dim(r, x)),
    lambda r, x: x.reshape(_shape(r, x)),
    lambda r, x: x.reshape(_shape(r, x)),
    lambda r, x: x.flatten(r.randrange(x.dim())),
    lambda r, x: x.unsqueeze(r.randrange(x.dim() + 1)),
    lambda r, x: x.squeeze(_dim(r, x)),
    lambda r, x: x.select(dim := _dim(r, x), r.randrange(x.shape[dim])),
    lambda r, x: list(x.unbind(_dim(r, x))),
    lambda r, x: x.softmax(_dim(r, x)),
    lambda r, x: x.softmax(-1),
    lambda r, x: x.roll(r.randint(-3, 3), _dim(r, x)),
    lambda r, x: F.pad(x, [r.randint(0, 2) for _ in range(2 * r.randint(1, x.dim()))], value=r.choice((0.0, 2.0))),
    lambda r, x: x.unsqueeze(0).expand(2, *[-1] * x.dim()),
    lambda r, x: r.choice((torch.relu, torch.sigmoid, torch.tanh, torch.abs))(x),
)  # fmt: skip

__all__ = ["random_model"]
