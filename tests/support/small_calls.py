"""Single calls of torch on tensors that lie in one order or another, along every dim: name -> (model, inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.support.small_models import MAP, Model, of


def _every_dim(call: Callable[[Any, int], Any], shape: tuple[int, ...] = MAP) -> Model:
    """The call on each dim: of a map, which lies channels-last, and of a tensor that is turned."""
    return of(lambda m, x: [call(t, d) for t in (x, x.transpose(0, -1)) for d in range(x.dim())], shape)


def _cut(x: Any, dim: int, *cut: int | None) -> Any:
    return x[(slice(None),) * dim + (slice(*cut),)]


def _along_last(x: Any, dim: int) -> Any:
    return [_cut(x, dim, 1, None), x.movedim(dim, 0)[::2].exp(), x.movedim(dim, -1)[..., -1:].exp()]


def _splits(x: Any, dim: int) -> Any:
    return [*x.split(2, dim), *x.split([1, x.shape[dim] - 1], dim)] if x.shape[dim] > 2 else x.neg()


# Elementwise ---------------------------------------------------------------------------------------------------------------


def _broadcasts(m: Any, x: Any, pixel: Any, channel: Any) -> Any:
    n, c, h, w = x.shape
    tokens = x.flatten(2).transpose(1, 2)
    return [
        x + m.channel[:, None, None], x * m.channel.view(1, -1, 1, 1), x - m.pixel, x * pixel, pixel - x, channel * x,
        x / m.row, x + m.one, 2 - x, x * 0.5, x / 4, x + x.amax(1, keepdim=True), x * x.amax((2, 3), keepdim=True),
        x - x.mean(dim=(0, 1), keepdim=True), tokens + m.channel, tokens * m.tokens, tokens - tokens.mean(-1, keepdim=True),
        tokens + tokens.amax(1, keepdim=True), x.transpose(1, 3) + pixel.transpose(1, 3), channel + pixel, x * x,
        x + x.permute(0, 1, 3, 2).contiguous().transpose(2, 3), m.channel + tokens.sum(1), torch.where(x > m.pixel, x, pixel),
        x.masked_fill(pixel < 0, -1.0), x == channel, torch.maximum(x, pixel), torch.addcmul(x, pixel, channel, value=0.5),
        m.pixel * m.row + x, x.mean((1, 2)) * x[:, 0, 0], (x.unsqueeze(1) + m.five).sum(2), (x > 0) & (pixel > 0),
        x.view(n, 2, c // 2, h, w) * m.halves, x.clamp(-1, 1) - x.square(),
    ]  # fmt: skip


BROADCASTS = {
    "channel": torch.empty(6), "pixel": torch.empty(4, 5), "row": torch.empty(5), "one": torch.empty(1),
    "tokens": torch.empty(20, 6), "five": torch.empty(3, 1, 1, 1), "halves": torch.empty(2, 3, 1, 1),
}  # fmt: skip


# Products, reductions ------------------------------------------------------------------------------------------------------


def _products(m: Any, a: Any, b: Any) -> Any:
    """a [2, 3, 5, 8], b [2, 3, 8, 6] in every way, with operands that lie turned. One weight is taken as it is and turned."""
    at, bt = a.transpose(-2, -1), b.transpose(-2, -1)
    turned, other = bt.contiguous().transpose(-2, -1), at.contiguous().transpose(-2, -1)
    x, y = a.flatten(0, 1), b.flatten(0, 1)
    return [
        a @ b, bt @ at, a @ at, at @ a, a @ turned, other @ b, other @ turned, torch.bmm(x, y), torch.mm(x[0], y[0]),
        a.permute(0, 2, 1, 3) @ b[:, :1, :, :1].expand(2, 5, 8, 4), torch.bmm(y.transpose(1, 2), x.transpose(1, 2)),
        a @ m.weight, F.linear(a, m.weight), x @ m.weight, torch.mm(x[0], m.weight), a.unsqueeze(0) @ b.unsqueeze(0),
        a.permute(1, 0, 2, 3) @ b.permute(1, 0, 2, 3), a.transpose(1, 2) @ a.permute(0, 2, 3, 1),
    ]  # fmt: skip


def _reductions(m: Any, x: Any) -> Any:
    found = []
    for t in (x, x.permute(0, 3, 1, 2), x.flatten(2).transpose(1, 2)):
        found += [
            t.mean(-1), t.sum(1), t.amax((0, -1)), t.mean((1, 2), keepdim=True), t.amin(0, keepdim=True), t.mean((-2, -1)),
            t.sum((0, 2)), t.mean(1, keepdim=True), t.mean((0, 1, 2), keepdim=True),
        ]  # fmt: skip
    return found


# Views ---------------------------------------------------------------------------------------------------------------------


def _reshapes(m: Any, x: Any) -> Any:
    n, c, h, w = x.shape
    windows = x.view(n, c, h // 2, 2, w // 2, 2)
    views = [
        windows.permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c), windows.permute(0, 1, 3, 5, 2, 4).reshape(n, c * 4, h // 2, -1),
        x.permute(0, 2, 3, 1).reshape(n, h * w, c), x.reshape(n, c * h, w), x.flatten(), x.transpose(1, 2).flatten(1),
        x.permute(2, 3, 0, 1).reshape(h, -1, n), x.unsqueeze(2).squeeze(0), x.view(-1, 2, w).transpose(0, 1), x[0, 0].t(),
        x.flatten(2).transpose(-2, -1).unflatten(1, (w, h)), x.movedim(1, -1), x[None].expand(1, -1, -1, -1, -1),
        x.reshape(n, c // 2, 2, h, w).permute(0, 2, 1, 3, 4).reshape(n, c, h, w), x.expand(3, *x.shape),
        x[:, :1].expand(-1, 4, -1, -1),
    ]  # fmt: skip
    return [view.exp() for view in views]


def _joined(m: Any, x: Any, y: Any) -> Any:
    turned = y.permute(0, 3, 1, 2)
    return [torch.cat(parts, dim) for parts in ([x, turned], [turned, x, turned]) for dim in (1, 2)]


def _rolls(m: Any, x: Any) -> Any:
    return [x.roll((1, -2), (2, 3)), x.permute(0, 2, 3, 1).roll((3, 1), (1, 2)), x.roll(5)]


def _pads(m: Any, x: Any) -> Any:
    turned = x.permute(0, 2, 3, 1)
    constant = [F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0, 2, 1), value=3.0), F.pad(turned, (0, 1, 2, 0, 0, 3)), F.pad(x, (0, 0))]
    edges = [F.pad(x, (1, 2, 0, 3), mode="replicate"), F.pad(x.transpose(1, 3), (1, 0, 1, 1), mode="replicate")]
    return constant + edges


def _of_one(m: Any, x: Any) -> Any:
    views = [x.unbind(1)[0], *x.split(1, 1), x[:, 0], x.squeeze(1), x.chunk(1, 1)[0], torch.cat([x], 1)]
    return [view.exp() for view in views]


def _norms(m: Any, x: Any) -> Any:
    turned = x.transpose(1, 3)
    return [m.a(turned), m.b(x.permute(0, 2, 3, 1)), m.c(x.transpose(-2, -1)), m.a(turned.flatten(1, 2))]


def _linears(m: Any, x: Any) -> Any:
    return [m.a(x), m.b(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) * 2, m.b(x.flatten(2).transpose(-2, -1))]


# What is written in place --------------------------------------------------------------------------------------------------


def _written_behind_a_copy(m: Any, x: Any) -> Any:
    """torch's copies are no copies where views are lazy, until one of the two is written."""
    copies = [x.clone(), x.transpose(1, 2).contiguous(), x.permute(0, 2, 3, 1).reshape(2, -1)]
    return [*(F.silu(copy, inplace=True) for copy in copies), x + 1]


def _overwritten(m: Any, x: Any) -> Any:
    y, z, u = x.clone(), x.clone(), x.clone()
    y.zero_()
    z.fill_(2.0)
    u.copy_(x * 3)
    return [y + 1, z + 1, u + 1, x + 1]


def _softmax_beside_a_view(m: Any, x: Any) -> Any:
    """The scores are not read again, but another name for them is."""
    scores = x * 2
    turned = scores.transpose(-2, -1)
    weights = scores.softmax(-1)
    del scores
    return [weights, turned.exp()]


def _softmax_of_any_rank(m: Any, x: Any) -> Any:
    return [y.softmax(-1) for y in (x * 2, x[0] * 2, x[0, 0] * 2, x[0, 0, 0] * 2, x.view(2, 2, 3, 8, 10) * 2)]


def _added_in_place(m: Any, x: Any) -> Any:
    y = m.c(x)
    y += x
    y.relu_()
    return y.mul_(0.5) + x


# Weights that are computed -------------------------------------------------------------------------------------------------


def _kernels_of_the_input(m: Any, x: Any, w: Any, b: Any) -> Any:
    return [F.conv2d(x, w), F.conv2d(x, m.w, b.exp()), F.linear(x, b[:4].repeat(10).view(4, 10))]


CALLS: dict[str, Model] = {
    "softmax": _every_dim(lambda x, d: x.softmax(d)),
    "softmax of five dims": _every_dim(lambda x, d: x.softmax(d), (2, 3, 4, 2, 5)),
    "softmax of any rank": of(_softmax_of_any_rank, MAP),
    "softmax beside a view": of(_softmax_beside_a_view, MAP),
    "cat": _every_dim(lambda x, d: torch.cat([x, x + 1, _cut(x, d, 0, 1)], d)),
    "cat of two orders": of(_joined, MAP, (2, 8, 10, 6)),
    "stack": _every_dim(lambda x, d: torch.stack([x, x.neg()], d)),
    "stack last": of(lambda m, x: torch.stack([x, x.neg(), x], -1), MAP),
    "split": _every_dim(_splits),
    "chunk": _every_dim(lambda x, d: list(x.chunk(2, d))),
    "chunk of tiles": of(lambda m, x: [*x.chunk(2, 1), *x.chunk(2, 2), *x.transpose(1, 2).chunk(2, 1)], (1, 64, 64)),
    "slice": _every_dim(_along_last),
    "select": _every_dim(lambda x, d: [x.select(d, 0), x.select(d, -1).exp()]),
    "unbind": _every_dim(lambda x, d: list(x.unbind(d)), (2, 3, 4, 2)),
    "of one": of(_of_one, (2, 1, 6, 5)),
    "roll": _every_dim(lambda x, d: x.roll(-1, d)),
    "roll two": of(_rolls, MAP),
    "pad": of(_pads, MAP),
    "broadcasts": of(_broadcasts, (2, 6, 4, 5), (2, 1, 4, 5), (2, 6, 1, 1), **BROADCASTS),
    "products": of(_products, (2, 3, 5, 8), (2, 3, 8, 6), weight=torch.empty(8, 8)),
    "reductions": of(_reductions, (2, 6, 4, 5)),
    "reshapes": of(_reshapes, (2, 6, 4, 8)),
    "repeats": of(lambda m, x: [x.repeat(1, 2, 1, 1), x.repeat_interleave(2, 1), x.repeat(2, 1, 1, 1, 1)], MAP),
    "norms": of(_norms, MAP, a=nn.LayerNorm(6), b=nn.LayerNorm(6, elementwise_affine=False), c=nn.RMSNorm(8, eps=1e-5)),
    "linear of a map": of(_linears, MAP, a=nn.Linear(10, 7), b=nn.Linear(6, 4)),
    "written behind a copy": of(_written_behind_a_copy, MAP),
    "overwritten": of(_overwritten, MAP),
    "added in place": of(_added_in_place, MAP, c=nn.Conv2d(6, 6, 1)),
    "kernels of the input": of(_kernels_of_the_input, MAP, (4, 6, 3, 3), (4,), w=torch.empty(4, 6, 1, 1)),
}

__all__ = ["CALLS"]
