"""Sizes of prepared weights, held against the tensors that TTNN's convolutions return of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import DType, Shape
from ssinghal.core.verdict import Verdict
from ssinghal.device.modes import choose_device
from ssinghal.device.session import Session
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.prepared_weights import prepared_weights
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

BF16, BF8, BF4 = DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B
Prepared = tuple[Shape, Shape, str, str]  # shape, padded shape, dtype, layout

CALLS = {
    "dense": ("conv2d", (1, 64, 64, 64), (96, 64, 3, 3), {"padding": 1}),
    "one by one": ("conv2d", (1, 256, 40, 40), (128, 256, 1, 1), {}),
    "patches": ("conv2d", (1, 3, 224, 224), (768, 3, 16, 16), {"stride": 16}),
    "odd outputs": ("conv2d", (1, 64, 32, 32), (80, 64, 3, 3), {"padding": 1}),
    "dilated": ("conv2d", (1, 64, 40, 40), (64, 64, 3, 3), {"padding": 2, "dilation": 2}),
    "grouped": ("conv2d", (1, 64, 32, 32), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    "depthwise": ("conv2d", (1, 96, 64, 64), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
    "rows": ("conv1d", (2, 64, 128), (96, 64, 3), {"padding": 1}),
    "depthwise rows": ("conv1d", (1, 64, 128), (64, 1, 5), {"padding": 2, "groups": 64}),
    "transposed": ("conv_transpose2d", (1, 64, 16, 16), (64, 128, 2, 2), {"stride": 2}),
    "transposed, overlapping": ("conv_transpose2d", (1, 64, 16, 16), (64, 32, 4, 4), {"stride": 2, "padding": 1}),
}


def case_of(kind: str, **changes: Any) -> Case:
    name, image, weight, attrs = CALLS[kind]
    outputs = weight[1] if name == "conv_transpose2d" else weight[0]
    return make_case(name, (image, weight, (outputs,)), {**attrs, **changes})


class _Returning:
    """TTNN, whose convolutions return the prepared weight and bias, which are kept here."""

    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self.prepared: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ttnn, name)
        if not name.startswith("conv"):
            return found

        def convolve(**arguments: Any) -> Any:
            result, (weight, bias) = found(**arguments, return_weights_and_bias=True)
            self.prepared += [weight, bias]
            return result

        return convolve


@dataclass(frozen=True)
class Preparation(Task[list[Prepared]]):
    case: Case

    def run(self, session: Session, options: PoolOptions) -> list[Prepared]:
        session.use_regions(self.case.placement.l1_small_bytes or 0)
        call, ttnn = bind(self.case), _Returning(session.ttnn)
        operands = [session.empty(spec) for spec in call.specs()[0]]
        call.run(ttnn, session.device, operands, session.output_arguments(call.requested_output))
        returned = [(tuple(t.shape), tuple(t.padded_shape), t.dtype.name.lower(), t.layout.name) for t in ttnn.prepared]
        ttnn.prepared.clear()
        return returned

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[Prepared]:
        raise AssertionError(verdict.message)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("dtype", [BF16, BF8, BF4])
def test_weight_and_bias_have_the_shape_dtype_and_layout_of_ttnns(pool: Pool, kind: str, dtype: DType) -> None:
    """Columns are padded to tiles. TTNN pads rows to tiles at least: further where cores share the channels."""
    case = case_of(kind, weights_dtype=dtype.value)
    returned = pool.run(Preparation(case)).result()
    specs = prepared_weights(bind(case))
    assert [(s.shape, s.dtype.value, s.layout.name) for s in specs.values()] == [(s, d, layout) for s, _, d, layout in returned]
    for spec, (_, padded, _, _) in zip(specs.values(), returned, strict=True):
        assert padded[-1] == spec.padded_shape[-1]
        assert padded[-2] >= spec.padded_shape[-2]
        assert padded[-2] % 32 == 0


def test_a_volume_has_complete_tiles_of_both_kinds_of_channels() -> None:
    """27 positions x 32 of the 20 channels, and 64 of the 40 outputs; without a bias there is none."""
    specs = prepared_weights(bind(make_case("conv3d", ((1, 20, 4, 8, 8), (40, 20, 3, 3, 3)), {"padding": 1})))
    assert {position: spec.shape for position, spec in specs.items()} == {1: (27 * 32, 64)}


def test_other_calls_prepare_nothing() -> None:
    assert prepared_weights(bind(make_case("linear", ((8, 64), (64, 64))))) == {}
