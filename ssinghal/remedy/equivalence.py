"""Checks whether a rewrite keeps the values: runs it in torch and compares it with the original call.

No device is used, as a virtual one computes nothing. Shapes that are too large for the host are reduced along axes that can be
cut, and the result names the shapes that were compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import BufferType, DType, Shape
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.operators.binding import bind
from ssinghal.operators.dims import axes_of
from ssinghal.remedy.placements import bare
from ssinghal.remedy.rewrites import RewriteBackend
from ssinghal.remedy.strategies.registry import REWRITES
from ssinghal.remedy.trial import RewriteName, Trial
from ssinghal.runner.numerics import device_values, from_device_form, is_channels_last, make_values
from ssinghal.runner.tasks import PoolOptions, Task

_JOINED = {RewriteName.PIECES_APART: RewriteName.PIECES}  # rewrites whose values are compared after a join
ROUNDING = 2.0**-18  # of the largest value: float32 has 2^-24, and sums of thousands of terms lose a few bits
MAX_ELEMENTS = 2**22  # of operands and results together, in float32: hundredths of a second
MAX_ELEMENTS_ALONE = 2**26  # a second or two, and 256 MiB for each copy


@dataclass(frozen=True)
class ValueCheck:
    """``equal``: whether all elements of all results are equal; None where not computed, for ``reason``. ``inputs``: the shapes
    that were compared; ``reduced``: they are smaller than the call's. ``differing``: share of the elements; ``largest``:
    absolute difference. ``rounding``: no difference exceeds that of a float32 sum in another order."""

    equal: bool | None
    rounding: bool = False
    inputs: tuple[Shape, ...] = ()
    reduced: bool = False
    differing: float = 0.0
    largest: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ValuesTask(Task[ValueCheck]):
    """Runs in a worker with torch, so that an operator that needs too much time or memory affects this check only."""

    trial: Trial
    most: int = MAX_ELEMENTS

    def run(self, session: Session, options: PoolOptions) -> ValueCheck:
        return check_values(self.trial, self.most)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> ValueCheck:
        return ValueCheck(None, reason=verdict.message)


def check_values(trial: Trial, most: int = MAX_ELEMENTS) -> ValueCheck:
    """Runs the trial's rewrite in torch and compares it with the plain call."""
    torch = import_module("torch")
    trial = _bare(trial)
    if "original" in trial.params:
        return _check_rearranged(torch, trial, most)
    small = _reduced(trial, most)
    if small is None:
        return ValueCheck(None, inputs=trial.case.inputs, reason=f"more than {most:,} elements, which cannot be reduced")
    case, params = small
    reduced = case.inputs != trial.case.inputs
    try:
        plain, rewritten = TorchBackend(torch, case), TorchBackend(torch, case)
        expected, actual = (
            plain.call(case, plain.tensors),
            list(REWRITES[_JOINED.get(trial.rewrite, trial.rewrite)](rewritten, params)),
        )
    except (RuntimeError, NotImplementedError, MemoryError) as error:
        return ValueCheck(
            None, inputs=case.inputs, reduced=reduced, reason=str(error).splitlines()[0] if str(error) else "host memory"
        )
    return replace(compare(torch, expected, actual), inputs=case.inputs, reduced=reduced)


def _bare(trial: Trial) -> Trial:
    original = {"original": bare(trial.params["original"])} if "original" in trial.params else {}
    return replace(trial, case=bare(trial.case), params={**trial.params, **original})


def _check_rearranged(torch: Any, trial: Trial, most: int) -> ValueCheck:
    """Compares the call on rearranged operands with the rearranged result of the original call."""
    original = fewer_elements(trial.params["original"], most, {})
    if original is None:
        return ValueCheck(None, inputs=trial.case.inputs, reason=f"more than {most:,} elements, which cannot be reduced")
    reduced, order = original.inputs != trial.params["original"].inputs, tuple(trial.params["order"])

    def form(tensor: Any, shape: Shape) -> Any:
        return tensor.permute(order) if order and tensor.ndim == len(order) else tensor.reshape(shape)

    plain = TorchBackend(torch, original)
    shapes = trial.case.inputs
    if reduced and not order:  # as a matrix of one row, as the sizes of the changed case are too large
        shapes = tuple((1, math.prod(shape)) for shape in original.inputs)
    operands = [form(x, shape) for x, shape in zip(plain.tensors, shapes, strict=True)]
    case = replace(trial.case, inputs=tuple(tuple(x.shape) for x in operands))
    actual = plain.call(case, operands)
    expected = [form(e, tuple(a.shape)) for e, a in zip(plain.call(original, plain.tensors), actual, strict=True)]
    return replace(compare(torch, expected, actual), inputs=original.inputs, reduced=reduced)


def compare(torch: Any, expected: Sequence[Any], actual: Sequence[Any]) -> ValueCheck:
    """Compares shapes, then values: a result of another shape is not equal."""
    if [tuple(e.shape) for e in expected] != [tuple(a.shape) for a in actual]:
        return ValueCheck(False, differing=1.0, reason="the shapes differ")
    differing, largest, count, rounding = 0, 0.0, 0, True
    for e, a in zip(expected, actual, strict=True):
        same = (e == a) | (torch.isnan(e) & torch.isnan(a))
        differing, count = differing + int((~same).sum()), count + e.numel()
        if not bool(same.all()):
            error = (e.double() - a.double()).abs()
            largest = max(largest, float(error.max()))
            rounding = rounding and largest <= ROUNDING * float(e.double().abs().max())
    return ValueCheck(not differing, bool(differing) and rounding, differing=differing / count, largest=largest)


def _reduced(trial: Trial, most: int) -> tuple[Case, Mapping[str, Any]] | None:
    """Returns a case of the same structure that the host can compute, with the rewrite's parameters; None if there is none."""
    is_cut = trial.rewrite in (RewriteName.PIECES, RewriteName.PIECES_APART)
    cut = (trial.params["axis"], trial.params["count"]) if is_cut else None
    small = fewer_elements(trial.case, most, {cut[0]: 2 * cut[1] - 1} if cut else {})
    if small is None or small == trial.case:
        return (small, trial.params) if small else None
    return _in_as_many(small, *cut) if cut else small, {**trial.params, "multiple": 1}


def _in_as_many(case: Case, axis: int, count: int) -> Case:
    """Returns ``case`` with so many units along ``axis`` that it has ``count`` pieces, the last one smaller, if it has
    enough."""
    axes = axes_of(bind(case))
    size = axes.units[axis] // count if axes else 1
    return axes.case_of(case, {axis: size * count - 1}) if axes and size > 1 else case


def fewer_elements(case: Case, most: int, least: Mapping[int, int]) -> Case | None:
    """Halves the axes of ``case`` until it has at most ``most`` elements; None where that is impossible. ``least``: units that
    an axis keeps; by default 2."""
    if _elements(case) <= most:
        return case
    axes = axes_of(bind(case))
    if axes is None:
        return None
    units, small = dict(axes.units), case
    while _elements(small) > most:
        axis = max(units, key=lambda axis: units[axis] / least.get(axis, 2))
        if units[axis] <= least.get(axis, 2):
            return None
        units[axis] = max(units[axis] // 2, least.get(axis, 2))
        small = axes.case_of(case, units)
    return small


def _elements(case: Case) -> int:
    call = bind(case)
    return sum(spec.volume for spec in (*call.inputs, *call.outputs))


class TorchBackend(RewriteBackend):
    """Runs rewrites in torch: operands have their form on the device, with float32 values or whole numbers."""

    def __init__(self, torch: Any, case: Case) -> None:
        self.torch, self.ttnn = torch, InTorch(torch)
        floats = case.placement.dtype not in (DType.INT32, DType.UINT32, DType.UINT16, DType.UINT8)
        wide = replace(case, placement=replace(case.placement, dtype=DType.FLOAT32)) if floats else case
        self.bound, self.residents = bind(wide), []  # its operands are placed, and cut, as those of float32
        self.info = self.bound.info
        values = device_values(self.bound, make_values(torch, self.bound))
        self.tensors = [x.float() if x.is_floating_point() else x for x in values]  # weights may have a dtype of their own

    def call(self, case: Case, tensors: Sequence[Any], **out: Any) -> list[Any]:
        bound = bind(case)
        operands = [self._as_written(x, tuple(s), i) for i, (x, s) in enumerate(zip(tensors, bound.shapes, strict=True))]
        results = bound.reference(self.torch, operands)
        return [self._placed(r, s.shape) for r, s in zip(results, bound.outputs, strict=True)]

    def _as_written(self, tensor: Any, shape: Shape, index: int) -> Any:
        if index in self.info.traits.transposed:
            return tensor.transpose(-2, -1)
        return (from_device_form(tensor, shape, self.info) if index == 0 else tensor).reshape(shape)

    def _placed(self, result: Any, shape: Shape) -> Any:
        """Returns torch's result in the form that it has on the device: channels last, or folded."""
        return (result.movedim(1, -1) if is_channels_last(self.info, tuple(result.shape)) else result).reshape(shape)

    def in_memory(self, buffer: BufferType) -> Any:
        return buffer

    def is_in(self, tensor: Any, buffer: BufferType) -> bool:
        return False

    def shares(self, a: Any, b: Any) -> bool:
        return False

    def piece(self, number: int) -> AbstractContextManager[None]:
        return nullcontext()


class InTorch:
    """TTNN's functions that rewrites call, in torch. Memory and layout do not affect values."""

    TILE_LAYOUT = None

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def slice(self, x: Any, starts: Sequence[int], ends: Sequence[int], **_: Any) -> Any:
        return x[tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))]

    def concat(self, parts: Sequence[Any], dim: int, **_: Any) -> Any:
        return self._torch.cat(list(parts), dim)

    def reshape(self, x: Any, shape: Sequence[int], **_: Any) -> Any:
        return x.reshape(tuple(shape))

    def permute(self, x: Any, order: Sequence[int], **_: Any) -> Any:
        return x.permute(tuple(order))

    def to_memory_config(self, x: Any, **_: Any) -> Any:
        return x

    def deallocate(self, x: Any) -> None:
        pass

    def reallocate(self, x: Any) -> Any:
        return x

    def max_pool2d(self, x: Any, **how: Any) -> Any:
        return self._pool(x, float("-inf"), self._torch.nn.functional.max_pool2d, how, dilation=how["dilation"])

    def avg_pool2d(self, x: Any, **how: Any) -> Any:
        return self._pool(x, 0.0, self._torch.nn.functional.avg_pool2d, how)

    def _pool(self, x: Any, filling: float, function: Any, how: Mapping[str, Any], **more: Any) -> Any:
        """Pools a map that comes as one matrix, with separate padding for each side."""
        top, bottom, left, right = how["padding"]
        maps = x.reshape(how["batch_size"], how["input_h"], how["input_w"], how["channels"]).movedim(-1, 1)
        padded = self._torch.nn.functional.pad(maps, (left, right, top, bottom), value=filling)
        pooled = function(padded, how["kernel_size"], how["stride"], **more)
        return pooled.movedim(1, -1).reshape(1, 1, -1, how["channels"])

    def upsample(self, x: Any, scale: Sequence[int], mode: str, **_: Any) -> Any:
        options = {} if mode == "nearest" else {"align_corners": False}
        enlarged = self._torch.nn.functional.interpolate(
            x.movedim(-1, 1), scale_factor=tuple(map(float, scale)), mode=mode, **options
        )
        return enlarged.movedim(1, -1)

    def to_layout(self, x: Any, layout: Any, **_: Any) -> Any:
        return x

    def linear(self, x: Any, weight: Any, bias: Any = 0.0, **_: Any) -> Any:
        return x @ weight + bias

    def softmax_in_place(self, x: Any, dim: int) -> Any:
        return self._torch.softmax(x, dim)
