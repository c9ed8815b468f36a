"""Checks the values of replicate padding by parts, and of constant padding instead.

Constant padding changes the model, as its edges have other values, so it is never a remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import Layout, Shape, format_shape
from ssinghal.core.verdict import Status, Verdict, sentence
from ssinghal.device.session import Session
from ssinghal.operators import make_case, named
from ssinghal.operators.binding import bind
from ssinghal.remedy.equivalence import MAX_ELEMENTS_ALONE, InTorch, TorchBackend, ValueCheck, compare, fewer_elements
from ssinghal.remedy.trial import TrialResult
from ssinghal.runner.tasks import PoolOptions, Task

_WHY_NOT = {Status.MISMATCH: "gives a wrong result", Status.UNSUPPORTED: "is not supported", Status.OOM: "does not fit"}
REPLICATE = named("replication_pad2d replication_pad3d")


@dataclass(frozen=True)
class PadValues:
    """Compared with torch's replicate padding: ``composed`` of slices and concat; ``constant``, with zeros at the edges; and
    whether the interior of the latter is equal."""

    composed: ValueCheck
    constant: ValueCheck
    interior_equal: bool | None = None


@dataclass(frozen=True)
class PadTask(Task[PadValues]):
    case: Case

    def run(self, session: Session, options: PoolOptions) -> PadValues:
        return pad_values(self.case)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> PadValues:
        missing = ValueCheck(None, reason=verdict.message)
        return PadValues(missing, missing)


def pad_values(case: Case) -> PadValues:
    """Computes all three in torch, on the same random values."""
    torch = import_module("torch")
    small = fewer_elements(case, MAX_ELEMENTS_ALONE, {})
    if small is None:
        missing = ValueCheck(None, inputs=case.inputs, reason="too many elements for the host")
        return PadValues(missing, missing)
    backend = TorchBackend(torch, small)
    (values,) = backend.tensors
    expected = backend.call(small, [values])
    composed = bind(small).run(InTorch(torch), None, [values], {})
    constant = torch.nn.functional.pad(values, tuple(backend.attrs["padding"]))
    inside = _interior(values.shape, backend.attrs["padding"])
    reduced = small.inputs != case.inputs
    return PadValues(
        replace(compare(torch, expected, composed), inputs=small.inputs, reduced=reduced),
        replace(compare(torch, expected, [constant]), inputs=small.inputs, reduced=reduced),
        bool(torch.equal(expected[0][inside], constant[inside])),
    )


def _interior(shape: Shape, padding: Sequence[int]) -> tuple[slice, ...]:
    before = [0] * len(shape)
    for i, size in enumerate(padding[::2]):
        before[len(shape) - 1 - i] = size
    return tuple(slice(start, start + size) for start, size in zip(before, shape, strict=True))


def constant_case(case: Case) -> Case:
    """Returns the same padding with zeros, in row-major layout, as TTNN does not pad tiles at the front."""
    placement = replace(case.placement, layout=Layout.ROW_MAJOR)
    return make_case("constant_pad_nd", case.inputs, {"pad": list(case.attrs["padding"])}, placement)


@dataclass(frozen=True)
class ModelChange:
    """What replaces a replicate padding. ``constant``: the trial of constant padding."""

    values: PadValues
    constant: TrialResult

    def lines(self) -> list[str]:
        out = [f"as slices and concat: {_values_text(self.values.composed)}"]
        check, constant = self.values.constant, self.constant
        if check.equal is not None:
            inside = "equal" if self.values.interior_equal else "NOT equal"
            failure = f"{_WHY_NOT.get(constant.verdict.status, 'fails')} ({sentence(constant.verdict)})"
            out.append(
                f"constant padding instead {'runs' if constant.works else failure} on ttnn {constant.ttnn}; it changes the"
                f" model: {check.differing:.1%} of the result's elements differ, by up to {check.largest:.3g} on normal values;"
                f" its interior is {inside}"
            )
        return out


def _values_text(check: ValueCheck) -> str:
    if check.equal is None:
        return f"values not compared ({check.reason})"
    reduced = " (reduced)" if check.reduced else ""
    return f"{'equal' if check.equal else 'DIFFERENT'} values in torch at {' '.join(map(format_shape, check.inputs))}{reduced}"
