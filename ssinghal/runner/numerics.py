"""Compares TTNN's values with torch's on a device that computes; never on a virtual one, whose values are all zero."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.measured import Comparison
from ssinghal.core.tensors import DType, Shape, TensorSpec
from ssinghal.device.session import Session
from ssinghal.errors import NotProven
from ssinghal.operators.binding import BoundCall
from ssinghal.operators.operator_info import BLOCK_FLOATS, OperatorInfo

_TORCH_DTYPES = {
    DType.BFLOAT16: "bfloat16", DType.FLOAT32: "float32", DType.BFLOAT8_B: "bfloat16", DType.BFLOAT4_B: "bfloat16",
    DType.UINT8: "uint8", DType.UINT16: "int32", DType.UINT32: "int32", DType.INT32: "int32",
}  # fmt: skip
RELATIVE, OF_LARGEST = 1e-4, 1e-5  # rounding of float32: of each value, and of the largest one
BF16_ROUNDING = 2**-8  # of a value, at most
SAME_LINE = 0.05  # of the scale, and of the spread for an offset: far above any rounding, far below another function
INDEX_LIMIT = 2  # index operands hold 0 or 1: valid for every table of at least two rows


def compare_values(torch: Any, expected: Any, actual: Any, min_pcc: float) -> Comparison:
    """Compares shapes, then by Pearson's correlation and the largest absolute error over finite values, in float64.

    A constant result has no correlation: it agrees (PCC 1) only if equal to within the rounding of bfloat16. A result that
    varies by little more correlates by its rounding alone, so that one as near as two roundings agrees at any PCC. A
    correlation sees neither scale nor offset, so both are checked too.
    """
    if tuple(expected.shape) != tuple(actual.shape):
        return Comparison(None, None, min_pcc, f"shape {list(actual.shape)}; torch gives {list(expected.shape)}")
    a, b = expected.flatten().to(torch.float64), actual.flatten().to(torch.float64)
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        return Comparison(None, None, min_pcc, "finite in one, not in the other")
    finite = torch.isfinite(a)
    a, b = a[finite], b[finite]
    error = float((a - b).abs().max()) if a.numel() else 0.0
    pcc, largest = correlation(torch, a, b), float(a.abs().max()) if a.numel() else 0.0
    if pcc is None:
        equal = error <= BF16_ROUNDING * max(largest, 1.0)
        return Comparison(1.0 if equal else 0.0, error, min_pcc, "" if equal else "a constant result that differs")
    fault = f"PCC {pcc:.5f} is below {min_pcc}" if pcc < min_pcc else _line_fault(a, b) if min_pcc > 0 else ""
    is_near = error <= 2 * BF16_ROUNDING * largest
    return Comparison(_finite(pcc), _finite(error), min_pcc, "" if is_near else fault)


def _line_fault(a: Any, b: Any) -> str:
    """Returns how values that correlate differ in scale or offset, which a correlation does not see; "" where they do not."""
    spread = float(a.std())
    scale, offset = float(b.std()) / spread, float((b - a).mean())
    if abs(scale - 1) <= SAME_LINE and abs(offset) <= SAME_LINE * spread:
        return ""
    return f"values spread {scale:.3g} times as far as torch's, and are {offset:+.3g} off on average"


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity, which float64 gives where values are near its end."""
    return value if math.isfinite(value) else None


def correlation(torch: Any, a: Any, b: Any) -> float | None:
    """Returns Pearson's correlation of two vectors of float64; None where they are empty or either is constant."""
    if not len(a) or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    return float(torch.corrcoef(torch.stack((a, b)))[0, 1])


def compare_with_torch(call: BoundCall, session: Session) -> Comparison:
    """Runs the call with values, on the device and in torch, and returns the worst result's comparison.

    Raises:
        NotProven: the device is virtual, so its values are meaningless.
        RuntimeError: TTNN's, where placing values needs more memory than placing empty tensors.
    """
    if session.facts.mode is DeviceMode.VIRTUAL:
        raise NotProven("a virtual device computes nothing: its values must not be compared")
    expected, actual = run_both(call, session)
    torch = import_module("torch")
    results = [compare_values(torch, e, a, call.info.traits.min_pcc) for e, a in zip(expected, actual, strict=True)]
    return min(results, key=lambda c: -1.0 if c.pcc is None else c.pcc)


def float32_difference(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """Returns how TTNN's results differ from torch's, "" where they agree to the rounding of float32."""
    torch = import_module("torch")
    if len(expected) != len(actual):
        return f"{len(actual)} results; torch gives {len(expected)}"
    for ours, theirs in zip(expected, actual, strict=True):
        if ours.shape != theirs.shape:
            return f"shape {list(theirs.shape)}; torch gives {list(ours.shape)}"
        a, b = ours.to(torch.float64), theirs.to(torch.float64)
        finite = a[torch.isfinite(a)]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        if not torch.allclose(a, b, RELATIVE, OF_LARGEST * largest, equal_nan=True):
            return f"values differ by up to {float((a - b).nan_to_num().abs().max()):.3g}, of up to {largest:.3g}"
    return ""


def run_both(call: BoundCall, session: Session) -> tuple[list[Any], list[Any]]:
    """Returns torch's results and TTNN's, both as torch tensors of the reference's shapes.

    Both start from the values that are stored: rounding an operand to a block float is no error of the call.
    """
    torch = import_module("torch")
    values = stored_values(call, make_values(torch, call), session)
    expected = call.reference(torch, [v.clone() for v in values])
    tensors = [session.from_torch(v, s) for v, s in zip(device_values(call, values), call.inputs, strict=True)]
    results: list[Any] = []
    try:
        out = session.output_arguments(call.requested_output)
        results = call.run(session.ttnn, session.device, tensors, out, values=True)
        shapes = [tuple(e.shape) for e in expected]
        actual = [from_device_form(session.to_torch(r), s, call.info) for r, s in zip(results, shapes, strict=True)]
    finally:
        for tensor in (*results, *tensors):
            if tensor.is_allocated():
                tensor.deallocate()
    return expected, actual


def make_values(torch: Any, call: BoundCall) -> list[Any]:
    """Returns operands of the reference's shapes, always the same for a case: normal for floats, 0 or 1 for integers.

    Operands that must be positive are at least 0.5. Operators that compare get whole numbers, and those that limit values get
    some beyond their limits: another operator would give the same result without.
    """
    generator = torch.Generator().manual_seed(int(call.case.key, 16))
    values = []
    for index, (shape, spec) in enumerate(zip(call.shapes, call.inputs, strict=True)):
        dtype = getattr(torch, _TORCH_DTYPES[spec.dtype])
        if dtype.is_floating_point:
            normal = torch.randn(shape, generator=generator) * call.info.traits.spread
            normal = normal.round() if call.info.traits.whole else normal
            values.append((normal.abs() + 0.5 if index in call.info.traits.positive else normal).to(dtype))
        else:
            values.append(torch.randint(0, INDEX_LIMIT, shape, generator=generator, dtype=torch.int64).to(dtype))
    return values


def stored_values(call: BoundCall, values: Sequence[Any], session: Session) -> list[Any]:
    """Returns operands from ``make_values`` as their specs store them: block floats share an exponent among 16 neighbours on
    the device, so the device's order of values decides how they are rounded."""
    stored = []
    for index, (value, form, spec) in enumerate(zip(values, device_values(call, values), call.inputs, strict=True)):
        if spec.dtype in BLOCK_FLOATS:
            rounded = from_operand_form(session.rounded(form, spec), index, tuple(value.shape), call.info)
            value = rounded.to(value.dtype)  # bfloat16, which has all values of a block float
        stored.append(value)
    return stored


def device_values(call: BoundCall, values: Sequence[Any]) -> Iterator[Any]:
    """Yields operands from ``make_values`` in the form that they have on the device."""
    for index, (value, spec) in enumerate(zip(values, call.inputs, strict=True)):
        yield to_device_form(value, spec, index, call.info)


def to_device_form(value: Any, spec: TensorSpec, index: int, info: OperatorInfo) -> Any:
    """Returns the reference's operand as it is on the device: last two dims swapped, channels last, or folded."""
    if index in info.traits.transposed:
        value = value.transpose(-2, -1)
    elif index == 0 and is_channels_last(info, tuple(value.shape)):
        value = value.movedim(1, -1)
    return value.reshape(spec.shape).contiguous()


def from_operand_form(form: Any, index: int, shape: Shape, info: OperatorInfo) -> Any:
    """Returns an operand of ``shape`` from its form on the device: the inverse of ``to_device_form``."""
    if index in info.traits.transposed:
        return form.reshape(*shape[:-2], shape[-1], shape[-2]).transpose(-2, -1)
    return from_device_form(form, shape, info).reshape(shape) if index == 0 else form.reshape(shape)


def from_device_form(value: Any, shape: Shape, info: OperatorInfo) -> Any:
    """Returns the device's result, or first operand, as in the reference: unfolded, channels second."""
    if is_channels_last(info, shape):
        return value.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    return value


def is_channels_last(info: OperatorInfo, shape: Shape) -> bool:
    """Whether a map of the operator has its channels last on the device. Sizes cannot show it: they may all be equal."""
    return bool(info.traits.nhwc) and len(shape) >= 3
