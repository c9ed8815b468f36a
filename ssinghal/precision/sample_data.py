"""Samples of values that resemble those of models, the same in every run. ``torch`` is an argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

SIZE = 256  # rows and columns
LARGER = (512, 512)  # of the samples for remedies
ATTENDED = (16, 4096)  # rows of scores over 4,096 keys: values of about 1/4096
OUTLIERS, OUTLIER_FACTOR = 1e-3, 100.0

Torch = Any
Values = Any  # a torch tensor, as it would lie on the device: 16 neighbours of the last dim share an exponent


def _normal(torch: Torch, seed: int, *shape: int) -> Values:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _activations(torch: Torch) -> Values:
    return _normal(torch, 0, SIZE, SIZE)


def _scores(torch: Torch, deviation: float) -> Values:
    return torch.softmax(deviation * _normal(torch, 1, *ATTENDED), -1)


def _weight(torch: Torch) -> Values:
    """[out, in], as torch has it: normal, each output channel with its own scale, log-normal with sigma 1."""
    return _normal(torch, 2, SIZE, SIZE) * _normal(torch, 3, SIZE, 1).exp()


def _with_outliers(torch: Torch) -> Values:
    chosen = torch.rand((SIZE, SIZE), generator=torch.Generator().manual_seed(4)) < OUTLIERS
    return torch.where(chosen, OUTLIER_FACTOR, 1.0) * _activations(torch)


def _columns_of_other_scales(torch: Torch) -> Values:
    return _normal(torch, 0, *LARGER) * torch.tensor([1.0, 1e-4]).repeat(LARGER[1] // 2)


SAMPLES: Mapping[str, Callable[[Torch], Values]] = {
    "normal": _activations,
    "after ReLU": lambda torch: _activations(torch).relu(),
    "softmax, scores of deviation 1": lambda torch: _scores(torch, 1.0),
    "softmax, scores of deviation 3": lambda torch: _scores(torch, 3.0),
    "linear weight as stored, [in, out]": lambda torch: _weight(torch).t(),
    "the same in torch's order, [out, in]": _weight,
    "one in 1,000 is 100 times larger": _with_outliers,
    "normal values": lambda torch: _normal(torch, 0, *LARGER),
    "softmax rows": lambda torch: torch.softmax(_normal(torch, 0, *LARGER) * 3, -1),
    "columns of other scales": _columns_of_other_scales,
}
REMEDY_SAMPLES = ("normal values", "softmax rows", "columns of other scales")  # the last: what block floats are worst at
PLAN_SAMPLES = tuple(name for name in SAMPLES if name not in REMEDY_SAMPLES)


def as_stored(weight: Values) -> Values:
    """Returns torch's weight in the order that TTNN stores: [out, in] as [in, out], [out, in, *kernel] as [kernel * in, out].

    This is what ``linear`` takes and ``prepare_conv_weights`` returns. For grouped convolutions TTNN stores a dense form, whose
    additional values are zeros and change no exponent. Vectors are unchanged.
    """
    if weight.ndim < 2:
        return weight
    dims = (*range(2, weight.ndim), 1, 0)
    return weight.permute(dims).reshape(-1, weight.shape[0])
