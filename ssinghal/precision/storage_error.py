"""Measures the error of storing values in a dtype: TTNN packs and unpacks them on the host.

In a block float 16 neighbours of the last dim share the exponent of the largest, so small values next to a large one become
zero. Pearson's correlation hides this, as the largest values decide it; hence the relative errors and the share of values that
become zero. This is the error of storage alone: nothing is computed, so it does not predict the numerics of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.tensors import TILE_EDGE, DType, Shape, round_up
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.device.session import Session
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.precision.footprint import PLAN_DTYPES
from ssinghal.precision.sample_data import PLAN_SAMPLES, SAMPLES, as_stored
from ssinghal.precision.tensor_files import check_file, read_tensors
from ssinghal.runner.numerics import correlation
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import DEFAULT_HOST_LIMIT_BYTES, PoolOptions, Task

MAX_VALUES = 2**24  # per tensor, with padded rows: some seconds, and 1 GiB in double
MEASURE_TIMEOUT_S = 600.0
COPIES = 3  # of a file's content that reading it may hold at once
# A correlation that looks good, and a share of values that became zero which is not
GOOD_PCC, RUINED_SHARE = 0.99, 0.01


@dataclass(frozen=True)
class StorageLoss:
    """The error of values called ``data``, a matrix of ``shape`` whose rows are the last dim, stored in ``dtype``.

    ``pcc``: Pearson's correlation; None where either side is constant. Relative errors are those of non-zero values: the
    median and the 95th percentile; None where all are zero. ``flushed``: share of non-zero values that became zero.
    ``largest_error`` and ``largest_value`` are absolute. Infinities and NaN are excluded from all of these: ``not_finite``
    counts them among the given values, ``overflowed`` counts finite values that became one.
    """

    data: str
    dtype: DType
    shape: Shape
    pcc: float | None
    median_relative: float | None
    p95_relative: float | None
    flushed: float
    largest_error: float
    largest_value: float
    not_finite: int = 0
    overflowed: int = 0

    @property
    def largest(self) -> float:
        """Largest error over the largest value."""
        return self.largest_error / self.largest_value

    @property
    def ruin_hidden(self) -> bool:
        """Whether the correlation is above ``GOOD_PCC`` although more than ``RUINED_SHARE`` of the values became zero."""
        return self.pcc is not None and self.pcc > GOOD_PCC and self.flushed > RUINED_SHARE


@dataclass(frozen=True)
class MeasuredLoss:
    """``skipped``: tensors that were not measured, with the reason. ``fault``: why none was measured, if so."""

    ttnn: str = ""
    losses: tuple[StorageLoss, ...] = ()
    skipped: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class StorageTask(Task[MeasuredLoss]):
    """Stores the named samples, or the tensors of ``file``, in each of ``dtypes``. ``as_weights``: the file's tensors are
    weights in torch's order."""

    file: Path | None = None
    as_weights: bool = False
    samples: tuple[str, ...] = PLAN_SAMPLES
    dtypes: tuple[DType, ...] = PLAN_DTYPES

    def run(self, session: Session, options: PoolOptions) -> MeasuredLoss:
        torch = import_module("torch")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the same order of sums on every machine, and no waiting for busy cores
        try:
            return self._measured(torch, session)
        finally:
            torch.set_num_threads(threads)

    def _measured(self, torch: Any, session: Session) -> MeasuredLoss:
        losses: list[StorageLoss] = []
        skipped: list[str] = []
        try:
            for name, values in self._values(torch):
                reason = _why_not(torch, values)
                if reason:
                    skipped.append(f"{name}: {reason}")
                    continue
                matrix, part = _leading_rows(as_stored(values) if self.as_weights else values)
                losses += [_measured(torch, session, f"{name}{part}", matrix, dtype) for dtype in self.dtypes]
        except InvalidCase as error:
            return MeasuredLoss(fault=str(error))
        except MemoryError:
            return MeasuredLoss(fault="the values need more host memory than the limit")
        if not losses:
            return MeasuredLoss(fault=f"{self.file}: no tensor of floating-point values: {skipped[0]}")
        return MeasuredLoss(session.facts.ttnn, tuple(losses), tuple(skipped))

    def _values(self, torch: Any) -> Iterator[tuple[str, Any]]:
        if self.file is not None:
            yield from read_tensors(torch, self.file)
            return
        yield from ((name, SAMPLES[name](torch)) for name in self.samples)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> MeasuredLoss:
        hint = "; --timeout extends the limit" if verdict.status is Status.TIMEOUT else ""
        return MeasuredLoss(fault=f"{self.file or 'samples'}: {verdict.message}{hint}")


def measure_storage(
    file: Path | None = None,
    *,
    as_weights: bool = False,
    release: Release | None = None,
    timeout_s: float = MEASURE_TIMEOUT_S,
) -> MeasuredLoss:
    """Measures ``PLAN_SAMPLES``, or the tensors of ``file``, in a worker. Packing needs no board, so any virtual one does.

    Raises:
        InvalidCase: the file cannot be read, or has no floating-point tensor.
        HarnessError: torch is not installed, or the worker ended.
        DeviceError: no virtual device opens.
    """
    if file is not None:
        check_file(file)
    if find_spec("torch") is None:
        raise HarnessError("the storage error is measured with torch, which is not installed: pip install 'ssinghal[device]'")
    host_bytes = DEFAULT_HOST_LIMIT_BYTES + (COPIES * file.stat().st_size if file is not None else 0)
    options = PoolOptions(timeout_s=timeout_s, host_limit_bytes=host_bytes, torch=True, release=release)
    with Pool(choose_device(DeviceMode.VIRTUAL.value, DEFAULT_BOARD), options) as pool:
        measured = pool.run(StorageTask(file, as_weights)).result()
    if measured.fault:
        raise InvalidCase(measured.fault)
    return measured


def _why_not(torch: Any, values: Any) -> str:
    """Returns why a tensor is not measured; empty where it is."""
    if values.layout is not torch.strided or values.device.type != "cpu":
        return "not a dense tensor on the host"
    if not values.is_floating_point():
        return f"values of {str(values.dtype).removeprefix('torch.')}, which plans do not change"
    stored_bytes = values.untyped_storage().nbytes()
    if values.numel() > MAX_VALUES and values.numel() * values.element_size() > stored_bytes:
        return f"{values.numel():,} values of which {stored_bytes:,} B are stored, repeated"  # one value can be 10^12
    return "" if values.numel() else "no values"


def _leading_rows(values: Any) -> tuple[Any, str]:
    """Returns a float32 matrix with the same last dim, and a suffix for the name where only the first rows are measured."""
    width = values.shape[-1] if values.ndim else 1
    rows = values.reshape(-1, width)
    limit = max(MAX_VALUES // round_up(width, TILE_EDGE), 1)
    if len(rows) <= limit:
        return rows.float(), ""
    return rows[:limit].float(), f", first {limit:,} of {len(rows):,} rows"


def _measured(torch: Any, session: Session, data: str, values: Any, dtype: DType) -> StorageLoss:
    ttnn = session.ttnn
    stored = ttnn.to_torch(ttnn.from_torch(values, dtype=getattr(ttnn, dtype.value), layout=ttnn.TILE_LAYOUT))
    return storage_loss(torch, data, dtype, values.double(), stored.double())


def storage_loss(torch: Any, data: str, dtype: DType, given: Any, stored: Any) -> StorageLoss:
    """Returns the loss of ``given``, which became ``stored``: torch matrices of the same shape, in double."""
    shape = tuple(given.shape)
    finite, kept = torch.isfinite(given), torch.isfinite(stored)
    both = finite & kept
    not_finite, overflowed = int((~finite).sum()), int((finite & ~kept).sum())
    given, stored = _chosen(given, both), _chosen(stored, both)
    error, size = (stored - given).abs(), given.abs()
    nonzero = size != 0
    relative = _chosen(error, nonzero) / _chosen(size, nonzero)
    gone = int((nonzero & (stored == 0)).sum())
    return StorageLoss(
        data,
        dtype,
        shape,
        correlation(torch, given, stored),
        _percentile(relative, 0.5),
        _percentile(relative, 0.95),
        gone / len(relative) if len(relative) else 0.0,
        float(error.max()) if len(error) else 0.0,
        float(size.max()) if len(size) else 0.0,
        not_finite,
        overflowed,
    )


def _chosen(values: Any, mask: Any) -> Any:
    """Returns the values where the mask is true, as a vector; skips the slow selection where all are."""
    return values.flatten() if bool(mask.all()) else values[mask]


def _percentile(values: Any, share: float) -> float | None:
    """Returns the smallest value that at least ``share`` of them do not exceed (torch.quantile takes 2^24 values at most)."""
    return float(values.kthvalue(ceil(share * len(values))).values) if len(values) else None
