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
from ssinghal.operators.operator_info import WEIGHTS_DTYPE
from ssinghal.operators.settings.passing import built
from ssinghal.operators.settings.table import table
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.convolutions import CONVOLUTIONS, VOLUME, MapConvolution, map_convolution
from ssinghal.plan.layout_ops import HeldTensor, takes_tiles
from ssinghal.plan.lowering import PlannedCall, PlannedStep
from ssinghal.plan.placement import DRAM, IN_DRAM, Choices, StepChoice

# Operators whose operands are broadcast against each other: a constant among them is laid out like any other tensor.
BROADCASTING = frozenset(
    named(
        "add sub mul div floor_divide maximum minimum addcmul eq ne gt ge lt le where masked_fill copy logical_and logical_or"
        " logical_xor cat matmul bmm mm scaled_dot_product_attention"
    )
)


CONFIG = "conv_config"
PRODUCTS = {name: 2 if name == "addmm" else 1 for name in named("linear addmm matmul bmm mm")}  # where the weight is


@dataclass(frozen=True)
class PreparedWeights:
    """A weight (``position`` 1) or bias (2) as TTNN prepares it for one kind of convolution. ``spec`` is TTNN's own."""

    signature: tuple[Any, ...]
    position: int
    spec: Any = field(compare=False)


Spec = Union[TensorSpec, PreparedWeights]  # noqa: UP007 (evaluated: Python 3.10 has no | of classes at run time)


# TTNN's specs of weight and bias by kind of convolution, or why it rejects their preparation.
Prepared = dict[tuple[Any, ...], Union[tuple[Any, Any], RuntimeError]]  # noqa: UP007


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

    def __init__(
        self,
        session: Session,
        trace: Trace,
        weights_dtype: DType | None = None,
        choices: Choices | None = None,
        *,
        activations: DType | None = None,
        prepared: Prepared | None = None,
        ttnn: Any = None,
    ) -> None:
        """``choices``: how the steps are called; TTNN prepares a convolution's weights for its input's memory and settings.
        ``activations``: their dtype in tiles, None for the model's. ``prepared``: what TTNN prepared before, which is added to.
        ``ttnn``: prepares them, if its calls are watched."""
        self.session, self.trace, self._weights_dtype, self._choices = session, trace, weights_dtype, choices or {}
        self.ttnn, self._activations = ttnn or session.ttnn, activations
        self.tensors: dict[PlacedWeight, Any] = {}
        self.placing: int | None = None
        self._weights: dict[tuple[int, int], PlacedWeight] = {}  # by step and position among its operands
        self._prepared: Prepared = {} if prepared is None else prepared

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
        axes = AxisLayout.plain(self.trace.values[step.operands[position]].shape)
        return HeldTensor(self.tensor(step, position), axes, is_constant=True)

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
        prepared = self._prepared.get(self._signature(step))
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
        convolution, signature = map_convolution(step), self._signature(step)
        if signature not in self._prepared:
            try:
                self._prepared[signature] = self._prepare(step, convolution, dtype)
            except RuntimeError as error:
                self._prepared[signature] = error.with_traceback(None)
        prepared = self._prepared[signature]
        if not isinstance(prepared, RuntimeError):
            return PreparedWeights(signature, position, prepared[position - 1])
        rows = math.prod(convolution.weight[2:]) * step.case.inputs[0][1]
        return TensorSpec((1, 1, rows if position == 1 else 1, convolution.out_channels), dtype)

    def _prepare(self, step: PlannedCall, convolution: MapConvolution, weights: DType) -> tuple[Any, Any]:
        """Returns TTNN's specs of weight and bias, for a map in the layout and memory in which it will come."""
        dtype, has_bias = step.case.placement.dtype, len(step.operands) > 2
        if convolution.is_transposed or weights.is_block_float or self._choice(step) != IN_DRAM:
            weight, bias = self._returned_by_call(step, convolution, dtype, has_bias)
        else:
            weight, bias = self._returned_by_preparation(convolution, dtype, has_bias)
        return weight.spec, None if bias is None else bias.spec

    def _choice(self, step: PlannedCall) -> StepChoice:
        return self._choices.get(step.number, IN_DRAM)

    def _signature(self, step: PlannedCall) -> tuple[Any, ...]:
        """Returns what decides how TTNN prepares a convolution over rows or maps."""
        convolution, choice = map_convolution(step), self._choice(step)
        placed = (choice.move_of(0), choice.memory, choice.settings)
        return (step.case.placement.dtype, len(step.operands), convolution.function, *convolution.call.items(), placed)

    def _returned_by_preparation(self, convolution: MapConvolution, dtype: DType, has_bias: bool) -> tuple[Any, Any]:
        ttnn, device = self.ttnn, self.session.device
        kind, image = getattr(ttnn, dtype.value), self._image_dtype(convolution.layout, dtype)
        options = {
            "input_memory_config": ttnn.DRAM_MEMORY_CONFIG,
            "input_layout": getattr(ttnn, f"{convolution.layout.name}_LAYOUT"),
            "input_dtype": getattr(ttnn, image.value),
            "output_dtype": getattr(ttnn, (self._activations or dtype).value),
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

    def _returned_by_call(
        self, step: PlannedCall, convolution: MapConvolution, dtype: DType, has_bias: bool
    ) -> tuple[Any, Any]:
        """Returns what the call makes of weights in host memory.

        ``prepare_conv_transpose2d_weights`` pads small maps' weights to other blocks than the call itself, and
        ``prepare_conv_weights`` makes no block floats for a map in DRAM.
        """
        shape = (1, 1, convolution.rows, convolution.preparation["in_channels"])
        choice = self._choice(step)
        memory = choice.move_of(0) or DRAM
        layout = convolution.layout if takes_tiles(memory) else Layout.ROW_MAJOR
        image = TensorSpec(shape, self._image_dtype(layout, dtype), layout, memory)
        placed = {} if choice.memory is None else {"memory_config": self.session.memory_config(choice.memory)}
        _, prepared = getattr(self.ttnn, convolution.function)(
            input_tensor=self.session.empty(image),
            weight_tensor=self._on_host(convolution.weight, dtype),
            bias_tensor=self._on_host((1, 1, 1, convolution.out_channels), dtype) if has_bias else None,
            device=self.session.device,
            return_weights_and_bias=True,
            **placed,
            **self.conv_settings(step),
            **convolution.call,
        )
        weight, bias = prepared
        return weight, bias

    def _image_dtype(self, layout: Layout, dtype: DType) -> DType:
        """Returns the dtype in which a convolution gets its map. ``dtype``: the model's."""
        return self._activations if self._activations and layout is Layout.TILE else dtype

    def conv_settings(self, step: PlannedCall, *, frees_input: bool = False, ttnn: Any = None) -> dict[str, Any]:
        """Returns the settings of a convolution over rows or maps as arguments: those of its choice, and the dtype of its
        weights where that is not its map's.

        ``frees_input``: a sharded convolution frees its input as soon as it has copied it. ``ttnn``: that of a transcript.
        """
        settings = self._choice(step).settings_of_case
        weights = self.dtype_of(step, 1)
        config = {**settings.pop(CONFIG, {})}
        if weights.is_block_float:
            config[WEIGHTS_DTYPE] = weights.value
        if "shard_layout" in config and frees_input:
            config["deallocate_activation"] = True
        if config:
            settings[CONFIG] = {"type": "Conv2dConfig", WEIGHTS_DTYPE: step.case.placement.dtype.value, **config}
        fields, ttnn = table().functions[map_convolution(step).function], ttnn or self.session.ttnn
        arguments = {name: built(ttnn, value, fields[name]) for name, value in settings.items()}
        if self._activations is not None and self._activations is not step.case.placement.dtype:
            arguments["dtype"] = getattr(ttnn, self._activations.value)
        return arguments

    def _on_host(self, shape: Shape, dtype: DType) -> Any:
        ttnn = self.session.ttnn
        spec = ttnn.TensorSpec(list(shape), getattr(ttnn, dtype.value), ttnn.ROW_MAJOR_LAYOUT, ttnn.BufferType.DRAM)
        return ttnn.allocate_tensor_on_host(spec, self.session.device)


def _volume(shape: Shape, groups: int, dtype: DType) -> TensorSpec:
    """Returns the weight or bias of a conv3d: [kernel positions x channels, out channels], dense over its groups, or [1, out].

    Both kinds of channels are in complete tiles.
    """
    out, *rest = shape
    rows = math.prod(rest[1:]) * round_up(rest[0] * groups, TILE_EDGE) if rest else 1
    return TensorSpec((rows, round_up(out, TILE_EDGE)), dtype, Layout.TILE)
