"""Writes the preparation of weights: which tensor of the torch model each comes from, and what is done to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.capture.trace import Trace, ValueKind
from ssinghal.core.tensors import Layout
from ssinghal.device.code_writer import Expression, RecordedCall, Ref
from ssinghal.errors import InvalidCase
from ssinghal.plan.program.functions import TOP
from ssinghal.plan.program.recording import RecordedWeight, Recording
from ssinghal.plan.program.text import Names, Settings, broken, quoted

USUAL_DTYPE = "ttnn.bfloat16"
PARAMETERS = frozenset({"weight", "bias", "running_mean", "running_var"})  # arguments of layers
NOT_OPTIONS = frozenset("weight_tensor bias_tensor input_tensor device weights_format has_bias return_weights_and_bias".split())
GEOMETRY = frozenset(
    "in_channels out_channels batch_size groups input_height input_width input_length kernel_size stride padding dilation"
    " output_padding".split()
)


@dataclass(frozen=True)
class CallSite:
    """The call of the torch model that takes a constant: the ``index``-th of ``overload`` directly in the module ``path``.

    ``position``: in an argument that is a list.
    """

    path: str
    overload: str
    index: int
    argument: str
    position: int | None

    def __str__(self) -> str:
        return f"({quoted(self.path)}, {quoted(self.overload)}, {self.index}, {quoted(self.argument)}, {self.position})"


class Sources:
    """Where the values of weights come from. ``constants``: those that the model computes, by their key in the program."""

    def __init__(self, original: Trace) -> None:
        self._trace = original
        self.constants: dict[str, CallSite] = {}
        self._keys: dict[int, str] = {}
        self._names = Names()
        self._sites: dict[int, CallSite] = {}
        self._shapes = defaultdict[str, set[Any]](set)
        counts = defaultdict[tuple[str, str], int](int)
        for step in original.steps:
            path = "" if step.at == TOP else step.at
            for argument, operand in step.operands.items():
                for position, number in enumerate(operand if isinstance(operand, tuple) else (operand,)):
                    if number is not None and original.values[number].is_resident:
                        place = position if isinstance(operand, tuple) else None
                        site = CallSite(path, step.overload, counts[path, step.overload], argument, place)
                        self._sites.setdefault(number, site)
                        self._shapes[original.values[number].name].add(original.values[number].shape)
            counts[path, step.overload] += 1

    def name(self, value: int) -> str:
        """Returns the name of the parameter or buffer, "" for a constant that the model computes."""
        known, site = self._trace.values[value], self._sites[value]
        if known.kind is not ValueKind.WEIGHT or len(self._shapes[known.name]) > 1:
            return ""
        is_vector = sum(size != 1 for size in known.shape) <= 1
        return known.name if site.argument in PARAMETERS or is_vector else ""

    def text(self, value: int) -> str:
        """Returns the torch tensor as Python."""
        name, site = self.name(value), self._sites[value]
        if name:
            shaped = "" if site.argument in PARAMETERS else f".reshape({list(self._trace.values[value].shape)})"
            return f"state[{quoted(name)}]{shaped}"
        return f"constants[{quoted(self.key(value))}]"

    def key(self, value: int) -> str:
        """Returns what the program calls the weight or constant."""
        name = self.name(value)
        if name:
            return name
        if value not in self._keys:
            site, known = self._sites[value], self._trace.values[value]
            own = known.name if known.kind is ValueKind.WEIGHT else ""
            wanted = own or f"{site.path}.{site.overload.split('.')[1]}_{site.argument}".lstrip(".")
            self._keys[value] = self._names.take(wanted)
            self.constants[self._keys[value]] = site
        return self._keys[value]


class WeightsText:
    """The lines of ``prepare_weights``. ``keys``: of each placed tensor; ``helpers``: functions that the lines call."""

    def __init__(self, recording: Recording, original: Trace, settings: Settings) -> None:
        self.recording, self.settings, self.sources = recording, settings, Sources(original)
        self.helpers: set[str] = set()
        self.keys: dict[int, str] = {}
        names = Names()
        previous = ""
        for weight in recording.weights:
            key = self.sources.key(weight.value)
            if weight.folded and weight.position == 2 and previous.endswith(".weight"):
                key = f"{previous.removesuffix('.weight')}.bias"
            self.keys[weight.number] = names.take(key)
            previous = key

    def lines(self) -> list[str]:
        written: list[str] = []
        weights = list(self.recording.weights)
        while weights:
            weight, following = weights[0], weights[1] if len(weights) > 1 else None
            pair = following is not None and self._is_pair(weight, following)
            if weight.preparation is not None and (pair or self._is_alone(weight)):
                group = weights[: 2 if pair else 1]
                text = self._convolution(weight, weights[1] if pair else None)
                written += broken("prepared |= ", text, "    ")
            else:
                group = weights[:1]
                written += broken(f"prepared[{quoted(self.keys[weight.number])}] = ", self._prepared(weight), "    ")
            del weights[: len(group)]
        return written

    def _is_pair(self, weight: RecordedWeight, bias: RecordedWeight) -> bool:
        """Returns whether these are weight and bias of one convolution, which TTNN prepares."""
        name = self.keys[weight.number].removesuffix(".weight")
        positions = (weight.position, bias.position) == (1, 2) and weight.preparation == bias.preparation is not None
        named = self.keys[weight.number] != name and self.keys[bias.number] == f"{name}.bias"
        return positions and named and weight.folded == bias.folded

    def _is_alone(self, weight: RecordedWeight) -> bool:
        """Returns whether this is the weight of a convolution without a bias, which TTNN prepares."""
        if weight.preparation is None or weight.position != 1 or not self.keys[weight.number].endswith(".weight"):
            return False
        return not self._has_bias(weight)

    def _has_bias(self, weight: RecordedWeight) -> bool:
        _, arguments = self._preparing(weight)
        return bool(arguments.get("has_bias")) or arguments.get("bias_tensor") is not None

    def _convolution(self, weight: RecordedWeight, bias: RecordedWeight | None) -> str:
        """Returns the call that prepares weight and bias of a convolution."""
        call, arguments = self._preparing(weight)
        name = self.keys[weight.number].removesuffix(".weight")
        tensors = self._pair_of(name, weight, bias)
        options = self._options(call)
        if call.function.startswith("ttnn.prepare_"):
            self.helpers |= {"conv_weight", "conv_bias", "convolution"}
            return f"convolution({quoted(name)}, {tensors}, device, {options})"
        self.helpers |= {"returned_by_call", "convolution_by_call"}
        return f"convolution_by_call({quoted(name)}, {call.function}, {tensors}, device, {self._image(arguments)}, {options})"

    def _pair_of(self, name: str, weight: RecordedWeight, bias: RecordedWeight | None) -> str:
        """Returns weight and bias in torch: by the names of the layers where those have the usual parameters."""
        value = self.sources.name(weight.value)
        if value == f"{name}.weight" and weight.features_inner is None and not weight.transposed:
            if weight.folded:
                norm = self._norm(name, weight)
                if norm:
                    self.helpers |= {"layer", "folded_weight", "folded_bias", "folded"}
                    return f"folded(state, {quoted(name)}, {quoted(norm)}, {weight.folded[5]})"
            elif bias is None or self.sources.name(bias.value) == f"{name}.bias":
                self.helpers.add("layer")
                return f"layer(state, {quoted(name)})"
        return f"({self._torch(weight)}, {'None' if bias is None else self._torch(bias)})"

    def _norm(self, name: str, weight: RecordedWeight) -> str:
        """Returns the name of the batch norm that is folded into a convolution, if its vectors have the usual names."""
        own, *vectors = weight.folded[:5]
        names = ["" if n is None else self.sources.name(n) for n in vectors]
        norm = names[2].removesuffix(".running_mean")
        usual = [f"{norm}.{vector}" for vector in ("weight", "bias", "running_mean", "running_var")]
        has_bias = own is not None and self.sources.name(own) == f"{name}.bias"
        return norm if names == usual and (own is None or has_bias) else ""

    def placed(self) -> Iterator[tuple[str, str]]:
        """Yields the key of each weight and the memory that it is placed in, as Python."""
        for number, key in self.keys.items():
            yield key, self.settings.expression(self.recording.facts[number].memory)

    # The elements -------------------------------------------------------------------------------------------------------

    def _torch(self, weight: RecordedWeight) -> str:
        """Returns the torch tensor before TTNN takes it, as Python."""
        text = self._folded(weight) if weight.folded else self.sources.text(weight.value)
        if weight.features_inner is not None:
            text += f".unflatten(0, (-1, {weight.features_inner})).transpose(0, 1).flatten(0, 1)"
        return f"{text}.mT" if weight.transposed else text

    def _folded(self, weight: RecordedWeight) -> str:
        is_weight = weight.position == 1 or len(self.recording.trace.values[weight.value].shape) > 1
        own, gamma, beta, mean, variance = ("None" if n is None else self.sources.text(n) for n in weight.folded[:5])
        epsilon = weight.folded[5]
        if is_weight:
            self.helpers.add("folded_weight")
            return f"folded_weight({self.sources.text(weight.value)}, {gamma}, {variance}, {epsilon})"
        self.helpers.add("folded_bias")
        return f"folded_bias({own}, {gamma}, {beta}, {mean}, {variance}, {epsilon})"

    # The form -----------------------------------------------------------------------------------------------------------

    def _prepared(self, weight: RecordedWeight) -> str:
        values = self._torch(weight)
        if weight.preparation is not None:
            return self._by_ttnn(weight, values)
        facts = self.recording.facts[weight.number]
        spec = weight.spec
        if spec is None:
            raise InvalidCase(f"no form is known of {self.keys[weight.number]}")
        volume = self._volume(weight)
        if volume is not None:
            self.helpers.add("conv3d_matrix")
            values = f"conv3d_matrix({values}, {volume})"
        elif tuple(self._shape(weight)) != tuple(spec.shape):
            values = f"{values}.reshape({list(spec.shape)})"
        kind = "tiles" if spec.layout is Layout.TILE else "rows"
        self.helpers.add(kind)
        return f"{kind}({values}{'' if facts.dtype == USUAL_DTYPE else f', {facts.dtype}'})"

    def _shape(self, weight: RecordedWeight) -> tuple[int, ...]:
        shape = self.recording.trace.values[weight.value].shape
        return (*shape[:-2], shape[-1], shape[-2]) if weight.transposed and len(shape) > 1 else shape

    def _volume(self, weight: RecordedWeight) -> int | None:
        """Returns the groups of a conv3d whose weight or bias this is, None for any other."""
        if weight.spec is None or weight.spec.layout is not Layout.TILE or len(weight.spec.shape) != 2:
            return None
        for step in self.recording.trace.steps:
            if step.overload.startswith("aten.conv3d.") and weight.value in step.inputs[1:]:
                return int(step.args.get("groups", 1))
        return None

    def _preparing(self, weight: RecordedWeight) -> tuple[RecordedCall, dict[str, Any]]:
        """Returns the call of TTNN that prepared this weight or bias, and its arguments."""
        calls = self.recording.preparations[weight.preparation or 0]
        making = [call for call in calls if not call.function.endswith("allocate_tensor_on_host")]
        direct = [call for call in making if call.function.startswith("ttnn.prepare_")]
        call = direct[weight.position - 1] if direct else making[-1]
        return call, dict(call.kwargs)

    def _options(self, call: RecordedCall) -> str:
        """Returns the constants with the settings of a convolution, and with its sizes."""
        options = [(key, value) for key, value in call.kwargs if key not in NOT_OPTIONS | GEOMETRY and value is not None]
        layout = [value.text for key, value in options if key == "input_layout"]
        name = "TAKES_TILES" if layout == ["ttnn.TILE_LAYOUT"] else "TAKES_ROWS" if layout else "PREPARED_BY_CALL"
        return f"{self.settings.options(name, options)}, {conv_constant(self.settings, call.function, call.kwargs)}"

    def _image(self, arguments: Mapping[str, Any]) -> str:
        image = self.recording.facts[arguments["input_tensor"].number]
        return f"({list(image.shape)}, {image.dtype}, {image.layout}, {self.settings.expression(image.memory)})"

    def _by_ttnn(self, weight: RecordedWeight, values: str) -> str:
        call, arguments = self._preparing(weight)
        options = self._options(call)
        if call.function.startswith("ttnn.prepare_"):
            self.helpers |= {"conv_weight", "conv_bias"}
            if weight.position == 1:
                return f"conv_weight({values}, {arguments['has_bias']}, device, {options})"
            return f"conv_bias({values}, device, {options})"
        self.helpers.add("returned_by_call")
        other = arguments["bias_tensor" if weight.position == 1 else "weight_tensor"]
        given = ["None", "None"]
        given[weight.position - 1] = values
        if isinstance(other, Ref):
            given[2 - weight.position] = f"torch.zeros({list(self.recording.facts[other.number].shape)})"
        tensors = f"({', '.join(given)})"
        call_text = f"returned_by_call({call.function}, {tensors}, device, {self._image(arguments)}, {options})"
        return f"{call_text}[{weight.position - 1}]"


def conv_constant(settings: Settings, function: str, arguments: Any) -> str:
    """Returns the name of the constant with the sizes of a convolution."""
    given = {key: value for key, value in arguments if key in GEOMETRY}
    kernel = given["kernel_size"]
    sides = kernel if isinstance(kernel, list) else [kernel]
    size = given.get("input_length") or f"{given.get('input_height')}X{given.get('input_width')}"
    stride = given["stride"] if isinstance(given["stride"], list) else [given["stride"]]
    name = f"CONV_{'X'.join(map(str, sides))}" + (f"_S{max(stride)}" if max(stride) > 1 else "")
    name += f"_{given['in_channels']}_TO_{given['out_channels']}_AT_{size}"
    if "transpose" in function:
        name = f"TRANSPOSED_{name}"
    return settings.options(name, list(given.items()))


__all__ = ["GEOMETRY", "CallSite", "Expression", "Sources", "WeightsText", "conv_constant"]
