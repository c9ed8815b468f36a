"""Places weights and constants: resident from the first call to the last, in the form that TTNN prepares.

That is not the form of the parameters. A convolution's weight becomes a matrix of kernel positions x channels, dense over its
groups: [C, 1, 3, 3] turns into 9C rows of C, padded to the blocks that its cores take. TTNN returns the form it needs
(``prepare_conv_weights``, or the call itself); a device tensor of another padding is rejected, or accepted without a word.
TTNN prepares the weight of a conv3d in rows (``prepare_conv3d_weights``), which its call would tilize each time: they are
resident in tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Union

from ssinghal.capture.trace import Trace
from ssinghal.core.tensors import TILE_EDGE, DType, Layout, Shape, TensorSpec, round_up
from ssinghal.device.session import Session
from ssinghal.operators import named
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.convolutions import CONVOLUTIONS, VOLUME, MapConvolution, map_convolution
from ssinghal.plan.layout_ops import HeldTensor
from ssinghal.plan.lowering import PlannedCall, PlannedStep

# Operators whose operands are broadcast against each other: a constant among them is laid out like any other tensor.
BROADCASTING = frozenset(
    named(
        "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill copy logical_and logical_or"
        " logical_xor cat matmul bmm mm scaled_dot_product_attention"
    )
)


PRODUCTS = {name: 2 if name == "addmm" else 1 for name in named("linear addmm matmul bmm mm")}  # where the weight is


@dataclass(frozen=True)
class PreparedWeights:
    """A weight (``position`` 1) or bias (2) as TTNN prepares it for one kind of convolution. ``spec`` is TTNN's own."""

    signature: tuple[Any, ...]
    position: int
    spec: Any = field(compare=False)


Spec = Union[TensorSpec, PreparedWeights]  # noqa: UP007 (evaluated: Python 3.10 has no | of classes at run time)


class PlacedWeight(NamedTuple):
    """A tensor with the elements of ``value``: its spec, and the changes to the elements before it is placed.

    One weight with two different changes takes two tensors. ``transposed``: the last two dims are swapped. ``features_inner``
    and ``folded``: as rewrites set them.
    """

    value: int
    spec: Spec
    transposed: bool = False
    features_inner: int | None = None
    folded: tuple[Any, ...] = ()


class ResidentWeights:
    """The weights and constants of a model. ``tensors``: each once, in the order in which they were placed.

    ``placing``: the value that was placed last, or that did not fit. ``weights_dtype``: of the operands that ``dtype_of``
    selects.
    """

    def __init__(self, session: Session, trace: Trace, weights_dtype: DType | None = None) -> None:
        self.session, self.trace, self._weights_dtype = session, trace, weights_dtype
        self.tensors: dict[PlacedWeight, Any] = {}
        self.placing: int | None = None
        self._weights: dict[tuple[int, int], PlacedWeight] = {}  # by step and position among its operands
        self._prepared: dict[tuple[Any, ...], tuple[Any, Any] | RuntimeError] = {}

    def decide_specs(self, steps: Iterable[PlannedStep]) -> None:
        """Decides the spec of every resident operand. The device must be empty: TTNN prepares convolutions there."""
        for step in steps:
            for position, number in enumerate(step.operands):
                if self.trace.values[number].is_resident and isinstance(step, PlannedCall):
                    self._weights[step.number, position] = PlacedWeight(
                        number,
                        self._spec(step, position),
                        position in step.info.traits.transposed,
                        step.extras.get("features_inner"),
                        tuple(step.extras.get("folded", ())),
                    )

    def place_all(self, steps: Iterable[PlannedStep]) -> None:
        """Allocates the tensors; raises TTNN's RuntimeError where the weights alone do not fit."""
        for step in steps:
            for position in range(len(step.operands)):
                weight = self._weights.get((step.number, position))
                if weight is not None and weight not in self.tensors:
                    self.placing = weight.value
                    self.tensors[weight] = self._placed(weight)

    def tensor(self, step: PlannedCall, position: int) -> Any:
        return self.tensors[self._weights[step.number, position]]

    def as_activation(self, step: PlannedCall, position: int) -> HeldTensor:
        """Returns a constant that is laid out like an activation."""
        return HeldTensor(self.tensor(step, position), AxisLayout.plain(self.trace.values[step.operands[position]].shape))

    def dtype_of(self, step: PlannedCall, position: int) -> DType:
        """Returns the dtype of a resident operand: the policy's where TTNN takes such weights, else the call's.

        Those are weights and biases of convolutions over rows and maps, which TTNN converts together, and the right operands of
        products; TTNN's conv3d takes no block floats.
        """
        dtype = step.case.placement.dtype
        if self._weights_dtype is None or dtype not in (DType.BFLOAT16, DType.FLOAT32):
            return dtype
        of_map = self.is_prepared(step) and len(step.case.inputs[0]) != VOLUME and position > 0
        return self._weights_dtype if of_map or PRODUCTS.get(step.operator) == position else dtype

    def is_prepared(self, step: PlannedCall) -> bool:
        """Returns whether this is a convolution with weights in TTNN's own form, which must be there from the start."""
        if step.operator not in CONVOLUTIONS or (step.attrs["transposed"] and len(step.case.inputs[0]) == VOLUME):
            return False
        return all(self.trace.values[number].is_resident for number in step.operands[1:])

    def preparation_error(self, step: PlannedCall) -> RuntimeError | None:
        """Returns TTNN's error where it rejects the preparation of this convolution.

        The call fails then, not the loading of weights: what comes before it may fit.
        """
        prepared = self._prepared.get(_signature(step))
        return prepared if isinstance(prepared, RuntimeError) else None

    def clear(self) -> None:
        self.tensors.clear()

    def _placed(self, weight: PlacedWeight) -> Any:
        if isinstance(weight.spec, TensorSpec):
            return self.session.empty(weight.spec)
        return self.session.ttnn.allocate_tensor_on_device(weight.spec.spec, self.session.device)

    def _spec(self, step: PlannedCall, position: int) -> Spec:
        dtype = self.dtype_of(step, position)
        shape = self.trace.values[step.operands[position]].shape or (1,)
        if position and self.is_prepared(step):
            is_volume = len(step.case.inputs[0]) == VOLUME
            return _volume(shape, step.attrs["groups"], dtype) if is_volume else self._map_weight(step, position, dtype)
        if step.operator in BROADCASTING:
            long = [size for size in shape if size != 1]
            return TensorSpec((1, 1, 1, *long) if len(long) < 2 else shape, dtype)
        spec = step.call.inputs[position]
        return replace(spec, dtype=dtype) if dtype.is_block_float else spec

    def _map_weight(self, step: PlannedCall, position: int, dtype: DType) -> Spec:
        """Returns a weight as TTNN prepares it for each kind of convolution; dense and in tiles where TTNN rejects that."""
        convolution, signature = map_convolution(step), _signature(step)
        if signature not in self._prepared:
            try:
                kinds = step.case.placement.dtype, dtype
                self._prepared[signature] = self._prepare(convolution, *kinds, len(step.operands) > 2)
            except RuntimeError as error:
                self._prepared[signature] = error.with_traceback(None)
        prepared = self._prepared[signature]
        if not isinstance(prepared, RuntimeError):
            return PreparedWeights(signature, position, prepared[position - 1])
        rows = math.prod(convolution.weight[2:]) * step.case.inputs[0][1]
        return TensorSpec((1, 1, rows if position == 1 else 1, convolution.out_channels), dtype)

    def _prepare(self, convolution: MapConvolution, dtype: DType, weights: DType, has_bias: bool) -> tuple[Any, Any]:
        """Returns TTNN's specs of weight and bias, for a map of ``dtype`` in the layout in which it will come."""
        if convolution.is_transposed or weights.is_block_float:
            weight, bias = self._returned_by_call(convolution, dtype, weights, has_bias)
        else:
            weight, bias = self._returned_by_preparation(convolution, dtype, has_bias)
        return weight.spec, None if bias is None else bias.spec

    def _returned_by_preparation(self, convolution: MapConvolution, dtype: DType, has_bias: bool) -> tuple[Any, Any]:
        ttnn, device = self.session.ttnn, self.session.device
        kind = getattr(ttnn, dtype.value)
        options = {
            "input_memory_config": ttnn.DRAM_MEMORY_CONFIG,
            "input_layout": getattr(ttnn, f"{convolution.layout.name}_LAYOUT"),
            "input_dtype": kind,
            "output_dtype": kind,
            "device": device,
            "conv_config": ttnn.Conv2dConfig(weights_dtype=kind),
            **convolution.preparation,
        }
        weight = self._on_host(convolution.weight, dtype)
        prepared = ttnn.prepare_conv_weights(weight_tensor=weight, weights_format="OIHW", has_bias=has_bias, **options)
        if not has_bias:
            return prepared, None
        return prepared, ttnn.prepare_conv_bias(
            bias_tensor=self._on_host((1, 1, 1, convolution.out_channels), dtype), **options
        )

    def _returned_by_call(self, convolution: MapConvolution, dtype: DType, weights: DType, has_bias: bool) -> tuple[Any, Any]:
        """Returns what the call makes of weights in host memory.

        ``prepare_conv_transpose2d_weights`` pads small maps' weights to other blocks than the call itself, and
        ``prepare_conv_weights`` makes no block floats for a map in DRAM.
        """
        shape = (1, 1, convolution.rows, convolution.preparation["in_channels"])
        _, prepared = getattr(self.session.ttnn, convolution.function)(
            input_tensor=self.session.empty(TensorSpec(shape, dtype, convolution.layout)),
            weight_tensor=self._on_host(convolution.weight, dtype),
            bias_tensor=self._on_host((1, 1, 1, convolution.out_channels), dtype) if has_bias else None,
            device=self.session.device,
            memory_config=self.session.ttnn.DRAM_MEMORY_CONFIG,
            return_weights_and_bias=True,
            **self.conv_config(weights),
            **convolution.call,
        )
        weight, bias = prepared
        return weight, bias

    def conv_config(self, weights: DType) -> dict[str, Any]:
        """Returns the argument that gives a convolution the dtype of its weights, where that is not its map's."""
        ttnn = self.session.ttnn
        return {"conv_config": ttnn.Conv2dConfig(weights_dtype=getattr(ttnn, weights.value))} if weights.is_block_float else {}

    def _on_host(self, shape: Shape, dtype: DType) -> Any:
        ttnn = self.session.ttnn
        spec = ttnn.TensorSpec(list(shape), getattr(ttnn, dtype.value), ttnn.ROW_MAJOR_LAYOUT, ttnn.BufferType.DRAM)
        return ttnn.allocate_tensor_on_host(spec, self.session.device)


def _signature(step: PlannedCall) -> tuple[Any, ...]:
    """Returns what decides how TTNN prepares a convolution over rows or maps."""
    convolution = map_convolution(step)
    return (step.case.placement.dtype, len(step.operands), convolution.function, *convolution.call.items())


def _volume(shape: Shape, groups: int, dtype: DType) -> TensorSpec:
    """Returns the weight or bias of a conv3d: [kernel positions x channels, out channels], dense over its groups, or [1, out].

    Both kinds of channels are in complete tiles.
    """
    out, *rest = shape
    rows = math.prod(rest[1:]) * round_up(rest[0] * groups, TILE_EDGE) if rest else 1
    return TensorSpec((rows, round_up(out, TILE_EDGE)), dtype, Layout.TILE)
