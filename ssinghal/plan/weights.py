"""Weights and constants: resident from the first call to the last, in the form that TTNN prepares them.

That is not the form of the parameters. A convolution's weight becomes a matrix of kernel positions x channels, dense over its
groups: [C, 1, 3, 3] turns into 9C rows of C, padded to the blocks that its cores take. TTNN says itself what it wants
(``prepare_conv_weights``); a device tensor of another padding is refused, or taken in silence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from ssinghal.capture.trace import Trace
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, round_up
from ssinghal.device.session import Session
from ssinghal.operators import named
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.lowering import PlannedStep

MAP, VOLUME = 4, 5
(CONVOLUTION,) = named("convolution")
# Operators whose operands are broadcast against each other: a constant among them is laid out like any other tensor.
BROADCASTING = frozenset(
    named(
        "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill copy logical_and logical_or"
        " logical_xor cat matmul bmm mm scaled_dot_product_attention"
    )
)


@dataclass(frozen=True)
class PreparedWeights:
    """What TTNN makes of a weight (``position`` 1) or bias (2) for one kind of convolution. ``spec`` is TTNN's own."""

    signature: tuple[Any, ...]
    position: int
    spec: Any = field(compare=False)


Spec = Union[TensorSpec, PreparedWeights]  # noqa: UP007 (evaluated: Python 3.10 has no | of classes at run time)


class PlacedWeight(NamedTuple):
    """A tensor that is placed: the ``value`` it is made of, what it is like, and what is done to its elements first: one weight
    in two such ways takes two tensors. ``transposed``: the last two dims swapped; ``features_inner`` and ``folded`` as the
    rewrites tell them."""

    value: int
    spec: Spec
    transposed: bool = False
    features_inner: int | None = None
    folded: tuple[Any, ...] = ()


class ResidentWeights:
    """``tensors``: each once, in the order in which they were placed."""

    def __init__(self, session: Session, trace: Trace) -> None:
        self.session, self.trace = session, trace
        self.tensors: dict[PlacedWeight, Any] = {}
        self._made: dict[tuple[int, int], PlacedWeight] = {}
        self._prepared: dict[tuple[Any, ...], tuple[Any, Any] | RuntimeError] = {}

    def spec_all(self, steps: Iterable[PlannedStep]) -> None:
        """Decides the spec of every resident operand. The device must be empty: convolutions are asked there."""
        for step in steps:
            for position, number in enumerate(step.operands):
                if self.trace.values[number].is_resident and step.case is not None:
                    self._made[step.number, position] = PlacedWeight(
                        number,
                        self._spec(step, position),
                        position in step.info.traits.transposed,
                        step.extras.get("features_inner"),
                        tuple(step.extras.get("folded", ())),
                    )

    def place_all(self, steps: Iterable[PlannedStep]) -> None:
        """Allocates them. RuntimeError of TTNN where the weights alone do not fit."""
        for step in steps:
            for position in range(len(step.operands)):
                made = self._made.get((step.number, position))
                if made is not None and made not in self.tensors:
                    self.tensors[made] = self._placed(made)

    def tensor(self, step: PlannedStep, position: int) -> Any:
        return self.tensors[self._made[step.number, position]]

    def held(self, step: PlannedStep, position: int) -> HeldTensor:
        """A constant that is laid out like an activation."""
        return HeldTensor(self.tensor(step, position), AxisLayout.plain(self.trace.values[step.operands[position]].shape))

    def prepares(self, step: PlannedStep) -> bool:
        """Whether this is a convolution whose weights TTNN is given in its own form: those that are there from the start."""
        if step.operator != CONVOLUTION or step.attrs["transposed"] or step.case is None:
            return False
        resident = all(self.trace.values[number].is_resident for number in step.operands[1:])
        return resident and len(step.case.inputs[0]) in (MAP, VOLUME)

    def refusal(self, step: PlannedStep) -> RuntimeError | None:
        """What TTNN said where it would not prepare this convolution. It is the call that fails then, not the loading: what
        comes before it may fit."""
        prepared = self._prepared.get(_signature(step))
        return prepared if isinstance(prepared, RuntimeError) else None

    def clear(self) -> None:
        self.tensors.clear()

    def _placed(self, made: PlacedWeight) -> Any:
        if isinstance(made.spec, TensorSpec):
            return self.session.empty(made.spec)
        return self.session.ttnn.allocate_tensor_on_device(made.spec.spec, self.session.device)

    def _spec(self, step: PlannedStep, position: int) -> Spec:
        assert step.case is not None
        dtype = step.case.placement.dtype
        shape = self.trace.values[step.operands[position]].shape or (1,)
        if position and self.prepares(step):
            is_map = len(step.case.inputs[0]) == MAP
            return self._map_weight(step, position, dtype) if is_map else _volume(shape, step.attrs["groups"], dtype)
        if step.operator in BROADCASTING:
            long = [size for size in shape if size != 1]
            return TensorSpec((1, 1, 1, *long) if len(long) < 2 else shape, dtype)
        return step.call.inputs[position]

    def _map_weight(self, step: PlannedStep, position: int, dtype: DType) -> Spec:
        """As TTNN prepares it, asked once for each kind of convolution; dense and in tiles where TTNN refuses."""
        assert step.case is not None
        weight, signature = step.case.inputs[1], _signature(step)
        if signature not in self._prepared:
            try:
                self._prepared[signature] = self._asked(weight, dtype, len(step.operands) > 2, conv_arguments(step))
            except RuntimeError as error:
                self._prepared[signature] = error.with_traceback(None)
        prepared = self._prepared[signature]
        if not isinstance(prepared, RuntimeError):
            return PreparedWeights(signature, position, prepared[position - 1])
        rows = math.prod(weight[1:]) * step.attrs["groups"]
        return TensorSpec((1, 1, rows if position == 1 else 1, weight[0]), dtype)

    def _asked(self, weight: Shape, dtype: DType, has_bias: bool, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """For a map in the layout in which it will come."""
        ttnn, device = self.session.ttnn, self.session.device
        kind = getattr(ttnn, dtype.value)
        how = {
            "input_memory_config": ttnn.DRAM_MEMORY_CONFIG,
            "input_layout": getattr(ttnn, f"{map_layout(arguments['in_channels']).name}_LAYOUT"),
            "input_dtype": kind,
            "output_dtype": kind,
            "device": device,
            "conv_config": ttnn.Conv2dConfig(weights_dtype=kind),
            **arguments,
        }

        def host(shape: Shape) -> Any:
            spec = ttnn.TensorSpec(list(shape), kind, ttnn.ROW_MAJOR_LAYOUT, ttnn.BufferType.DRAM)
            return ttnn.allocate_tensor_on_host(spec, device)

        prepared = ttnn.prepare_conv_weights(weight_tensor=host(weight), weights_format="OIHW", has_bias=has_bias, **how)
        bias = ttnn.prepare_conv_bias(bias_tensor=host((1, 1, 1, weight[0])), **how) if has_bias else None
        return prepared.spec, None if bias is None else bias.spec


def _signature(step: PlannedStep) -> tuple[Any, ...]:
    """What decides how TTNN prepares a convolution over maps."""
    assert step.case is not None
    return (step.case.inputs[1], step.case.placement.dtype, len(step.operands), *conv_arguments(step).items())


def map_layout(channels: int) -> Layout:
    """In which a convolution is given its map. What TTNN prepares of a weight depends on it, so it is decided before: tiles, as
    most calls leave it; but rows where the channels fill no whole tiles, as in a first layer, since of those TTNN prepares the
    weight for more channels than its convolution then counts."""
    return Layout.ROW_MAJOR if channels % TILE_EDGE else Layout.TILE


def conv_arguments(step: PlannedStep) -> dict[str, Any]:
    """Of a convolution over maps, by TTNN's names."""
    assert step.case is not None
    image, weight = step.case.inputs[0], step.case.inputs[1]
    pairs = {name: spatial(step, name, 2) for name in ("stride", "padding", "dilation")}
    return {
        "in_channels": image[1],
        "out_channels": weight[0],
        "batch_size": image[0],
        "input_height": image[2],
        "input_width": image[3],
        "kernel_size": weight[2:],
        "groups": step.attrs["groups"],
        **pairs,
    }


def spatial(step: PlannedStep, name: str, dims: int) -> tuple[int, ...]:
    """An argument that is one number for all spatial dims, or one for each."""
    value = step.attrs[name]
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * dims if len(numbers) == 1 else numbers


def _volume(shape: Shape, groups: int, dtype: DType) -> TensorSpec:
    """conv3d takes [kernel positions x channels, out channels], dense over its groups, and a bias [1, out channels]; both kinds
    of channels in whole tiles."""
    out, *rest = shape
    rows = math.prod(rest[1:]) * round_up(rest[0] * groups, TILE_EDGE) if rest else 1
    return TensorSpec((rows, round_up(out, TILE_EDGE)), dtype, Layout.TILE)
