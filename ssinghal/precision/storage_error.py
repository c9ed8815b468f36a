"""What storing values in a dtype loses, measured by TTNN's own packing on the host: values in, packed, unpacked, values out.

A block float's 16 neighbours of the last dim share the exponent of the largest, so small values beside a large one become zero.
Pearson's correlation does not see them: the largest values decide it. Hence the relative errors and the share flushed to zero.
This is the error of storage alone. No device computes anything here, and no model's numerics are told by it.
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
from ssinghal.core.record import Status, Verdict
from ssinghal.core.tensors import TILE_EDGE, DType, Shape, round_up
from ssinghal.device.modes import DeviceMode, choose_device
from ssinghal.device.releases import Release
from ssinghal.device.session import DeviceFacts, Session
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.precision.footprint import PLAN_DTYPES
from ssinghal.precision.sample_data import PLAN_SAMPLES, SAMPLES, as_stored
from ssinghal.precision.tensor_files import check_file, read_tensors
from ssinghal.runner.numerics import correlation
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import DEFAULT_HOST_LIMIT_BYTES, PoolOptions, Task

MAX_VALUES = 2**24  # measured of one tensor, padding of its rows included: some seconds and 1 GiB in double
MEASURE_TIMEOUT_S = 600.0
COPIES = 3  # of a file that its reading may hold at once
# A row of which the correlation says nothing is wrong, and the share of zeros that something is
GOOD_PCC, RUINED_SHARE = 0.99, 0.01


@dataclass(frozen=True)
class StorageLoss:
    """Values called ``data`` kept in ``dtype``, in a matrix of ``shape`` whose rows are the last dim.

    ``pcc``: Pearson's correlation; None where either side is constant. Relative errors are of values other than zero: the
    median, and the 95th percentile; None where all are zero. ``flushed``: share of values other than zero that came back as
    zero. ``largest_error`` and ``largest_value`` are absolute. Infinities and NaN are left out of all of these:
    ``not_finite`` counts those given, ``overflowed`` the finite values that came back as one.
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
        """The correlation is above ``GOOD_PCC``, and yet more than ``RUINED_SHARE`` of the values are gone."""
        return self.pcc is not None and self.pcc > GOOD_PCC and self.flushed > RUINED_SHARE


@dataclass(frozen=True)
class MeasuredLoss:
    """``skipped``: tensors that were not measured, with the reason. ``fault``: why nothing was; empty where something was."""

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
        torch.set_num_threads(1)  # sums in one order on any machine; and threads that wait for a busy core are slower than one
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
            return MeasuredLoss(fault="the values take more host memory than they may")
        if not losses:
            return MeasuredLoss(fault=f"{self.file}: has no tensor of floating-point values: {skipped[0]}")
        return MeasuredLoss(session.facts.ttnn, tuple(losses), tuple(skipped))

    def _values(self, torch: Any) -> Iterator[tuple[str, Any]]:
        if self.file is not None:
            yield from read_tensors(torch, self.file)
            return
        yield from ((name, SAMPLES[name](torch)) for name in self.samples)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> MeasuredLoss:
        more = "; --timeout gives it longer" if verdict.status is Status.TIMEOUT else ""
        return MeasuredLoss(fault=f"{self.file or 'made values'}: {verdict.message}{more}")


def measure_storage(
    file: Path | None = None,
    *,
    as_weights: bool = False,
    release: Release | None = None,
    timeout_s: float = MEASURE_TIMEOUT_S,
) -> MeasuredLoss:
    """Measures ``PLAN_SAMPLES``, or the tensors of ``file``, in a worker. Packing needs no board, so any virtual one does.

    Raises:
        InvalidCase: a file that cannot be read, or has no floating-point tensor.
        HarnessError: no torch, or a worker that ended.
        DeviceError: no virtual device here.
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
    """Why a tensor is not measured; empty where it is."""
    if values.layout is not torch.strided or values.device.type != "cpu":
        return "no plain tensor of values"
    if not values.is_floating_point():
        return f"values of {str(values.dtype).removeprefix('torch.')}, which no plan changes"
    return "" if values.numel() else "no values"


def _leading_rows(values: Any) -> tuple[Any, str]:
    """As a matrix of float32 with the same last dim, and what to add to its name where only its first rows are measured."""
    width = values.shape[-1] if values.ndim else 1
    rows = values.reshape(-1, width)
    most = max(MAX_VALUES // round_up(width, TILE_EDGE), 1)
    if len(rows) <= most:
        return rows.float(), ""
    return rows[:most].float(), f", first {most:,} of {len(rows):,} rows"


def _measured(torch: Any, session: Session, data: str, values: Any, dtype: DType) -> StorageLoss:
    ttnn = session.ttnn
    stored = ttnn.to_torch(ttnn.from_torch(values, dtype=getattr(ttnn, dtype.value), layout=ttnn.TILE_LAYOUT))
    return storage_loss(torch, data, dtype, values.double(), stored.double())


def storage_loss(torch: Any, data: str, dtype: DType, given: Any, stored: Any) -> StorageLoss:
    """Of ``given``, which came back as ``stored``: matrices of torch of one shape, in double."""
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
    """The values that the mask is true of, as a vector; picking them is slow, so it is not done where all are."""
    return values.flatten() if bool(mask.all()) else values[mask]


def _percentile(values: Any, share: float) -> float | None:
    """The smallest value that at least ``share`` of them do not exceed (torch's own quantile takes 2^24 values at most)."""
    return float(values.kthvalue(ceil(share * len(values))).values) if len(values) else None
