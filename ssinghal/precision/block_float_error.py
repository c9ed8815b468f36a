"""What is lost by storing values in a narrower dtype, by TTNN's own packing on the host. No device computes anything here.

The correlation alone hides ruin: columns of very different scale come back with a PCC of 0.9999 and half of them zero. So the
median relative error and the share that became zero are told as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ssinghal.core.record import Verdict
from ssinghal.core.tensors import DType
from ssinghal.device.session import DeviceFacts, Session
from ssinghal.runner.tasks import PoolOptions, Task

ELEMENTS = (512, 512)


@dataclass(frozen=True)
class StorageError:
    """Of ``data`` (what the values were like) kept in ``dtype``: Pearson's correlation, median of the relative errors, largest
    error over the largest value, and the share of values other than zero that came back as zero."""

    dtype: str
    data: str
    pcc: float
    median_relative: float
    largest: float
    flushed: float

    def __str__(self) -> str:
        return (
            f"{self.data} in {self.dtype}: PCC {self.pcc:.5f}, median relative error {self.median_relative:.2%}, largest"
            f" {self.largest:.1%} of the largest value, {self.flushed:.1%} become zero"
        )


@dataclass(frozen=True)
class StorageTask(Task[tuple[StorageError, ...]]):
    dtype: DType

    def run(self, session: Session, options: PoolOptions) -> tuple[StorageError, ...]:
        torch = import_module("torch")
        return tuple(_measured(torch, session, self.dtype, name, values) for name, values in _samples(torch).items())

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> tuple[StorageError, ...]:
        return ()


def _samples(torch: Any) -> dict[str, Any]:
    """What tensors of a model look like, and what block floats are worst at: columns side by side of other scales."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(ELEMENTS, generator=generator)
    scales = torch.tensor([1.0, 1e-4]).repeat(ELEMENTS[1] // 2)
    return {
        "normal values": normal,
        "softmax rows": torch.softmax(normal * 3, -1),
        "columns of other scales": normal * scales,
    }


def _measured(torch: Any, session: Session, dtype: DType, name: str, values: Any) -> StorageError:
    ttnn = session.ttnn
    stored = ttnn.to_torch(ttnn.from_torch(values, dtype=getattr(ttnn, dtype.value), layout=ttnn.TILE_LAYOUT))
    return storage_error(dtype, name, values.double(), stored.double())


def storage_error(dtype: DType, name: str, given: Any, stored: Any) -> StorageError:
    """Of ``given``, which came back as ``stored``: tensors of torch of one shape, in double."""
    error = (stored - given).abs()
    a, b = given - given.mean(), stored - stored.mean()
    return StorageError(
        dtype.value,
        name,
        float((a * b).sum() / (a.norm() * b.norm())),
        float((error / given.abs()).median()),
        float(error.max() / given.abs().max()),
        float(((stored == 0) & (given != 0)).double().mean()),
    )
