"""Puts the program of a plan together."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.capture.trace import Trace, ValueKind
from ssinghal.core.tensors import format_shape
from ssinghal.device.code_writer import Expression
from ssinghal.errors import InvalidCase
from ssinghal.plan.program import fragments
from ssinghal.plan.program.body import Body, BodyWriter, all_lines, form
from ssinghal.plan.program.model_source import ModelSource, model_source
from ssinghal.plan.program.recording import Recording
from ssinghal.plan.program.residents import WeightsText
from ssinghal.plan.program.text import Settings, broken, quoted
from ssinghal.plan.result import PlanResult


@dataclass(frozen=True)
class ProgramText:
    """What a program is written from. ``original``: the trace as it was recorded, before the policy's rewrites."""

    original: Trace
    recording: Recording
    result: PlanResult

    def text(self, source: ModelSource | None = None) -> str:
        """Returns the program. ``source``: how its model is built, None for what the trace states.

        Raises:
            InvalidCase: The model cannot be written as a program.
        """
        recording = self.recording
        settings = Settings()
        source = source or model_source(self.original)
        weights = WeightsText(recording, self.original, settings)
        prepared = weights.lines()
        placed = [f"    {quoted(key)}: {memory}," for key, memory in weights.placed() if memory != "DRAM"]
        body = BodyWriter(recording, weights.keys, settings).body()
        inputs = self._inputs(settings)
        constants = [f"    {quoted(key)}: {site}," for key, site in weights.sources.constants.items()]
        lines = [
            *self._docstring(),
            *self._imports(source),
            "",
            f"INPUTS = {self._input_list()}  # shape, and dtype in torch",
            f"L1_SMALL_BYTES = {recording.l1_small_bytes}  # of each core, for tables that pools and convolutions keep",
            "DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG",
            *settings.lines(),
            "# What the model computes before its first call on the inputs, and the call that takes it: module, call of",
            "# torch, how many such calls that module made before, argument and position in it.",
            "CONSTANTS = {" + ("}" if not constants else ""),
            *([*constants, "}"] if constants else []),
            "# Weights that are not placed in interleaved DRAM.",
            "PLACED = {" + ("}" if not placed else ""),
            *([*placed, "}"] if placed else []),
            *all_lines([self._build_model(source)]),
            *fragment(fragments.ON_HOST),
            *(line for name in fragments.HELPERS if name in weights.helpers for line in fragment(fragments.HELPERS[name])),
            "",
            "",
            "def prepare_weights(state, constants, device):",
            '    """Returns all weights on the host, as TTNN takes them. The device must be empty; it is empty again after it.',
            "",
            "    state: the model's parameters and buffers by name, in float32; constants: by the keys of CONSTANTS. Of the",
            "    result the order is that in which the weights are placed.",
            '    """',
            "    prepared = {}",
            *prepared,
            "    device.clear_program_cache()  # the programs that prepared them are not needed again, and keep buffers",
            "    return prepared",
            *fragment(fragments.PLACE),
            *fragment(fragments.COMPARE),
            *inputs,
            *all_lines(body.functions),
            *self._forward(body),
            *fragment(fragments.TO_TORCH),
            *fragment(fragments.TORCH_RUN),
            *self._main(body),
        ]
        return "\n".join(lines) + "\n"

    def _docstring(self) -> list[str]:
        result = self.result
        shapes = ", ".join(format_shape(shape) for shape in result.input_shapes)
        return [
            f'"""{result.model} {shapes} as a TTNN program, with the calls of a plan that was run.',
            "",
            f"Board {result.board}, ttnn {result.ttnn}, policy {result.policy_name}: {result.status.value}, with a peak of",
            f"{result.peak_bytes:,} B in each DRAM bank and {result.l1_peak_bytes:,} B in each core's L1.",
            "The weights are those of the torch model, prepared once. They are random unless --state-dict names a file.",
            "",
            "    python PROGRAM [--state-dict FILE] [--compare]",
            "",
            "--compare also runs torch and prints the correlation (PCC) of each module's result with torch's. It needs a card:",
            "a virtual device computes no values.",
            '"""',
            "",
        ]

    def _imports(self, source: ModelSource) -> list[str]:
        return [
            "import argparse",
            "from collections import Counter",
            "from dataclasses import fields, is_dataclass",
            "",
            "import torch",
            "import ttnn",
            "from torch.multiprocessing.reductions import StorageWeakRef",
            "from torch.utils._python_dispatch import TorchDispatchMode",
            "from torch.utils._pytree import tree_leaves",
            *source.imports,
        ]

    def _input_list(self) -> str:
        values = [v for v in self.original.values if v.kind is ValueKind.INPUT]
        floats = ("bfloat16", "float16", "float32")  # torch runs in float32, what the device gets is rounded
        kinds = ["float32" if value.dtype in floats else value.dtype for value in values]
        return "[" + ", ".join(f"({list(v.shape)}, torch.{kind})" for v, kind in zip(values, kinds, strict=True)) + "]"

    def _build_model(self, source: ModelSource) -> list[str]:
        return [
            "def build_model():",
            '    """Returns the torch model and the function that runs it on its inputs."""',
            *(f"    {line}" for line in source.lines),
        ]

    def _inputs(self, settings: Settings) -> list[str]:
        """Writes the function that puts the inputs on the device."""
        lines = [
            "",
            "",
            "def place_inputs(tensors, device):",
            '    """Puts torch\'s inputs on the device as forward takes them."""',
        ]
        names = []
        for position, holding in enumerate(self.recording.inputs.values()):
            facts, axes = self.recording.facts[holding.number], holding.axes
            dims = axes.device_dims()
            if dims is None:
                raise InvalidCase("an input is laid out in a way that cannot be written")
            turned = "" if dims == sorted(dims) else f".permute({dims})"
            values = f"tensors[{position}]{turned}.reshape({list(facts.shape)})"
            host = f"ttnn.from_torch({values}, dtype={facts.dtype}, layout={facts.layout})"
            memory = settings.expression(facts.memory)
            lines += broken(f"input_{position} = ", f"ttnn.to_device({host}, device, memory_config={memory})", "    ")
            names.append(f"input_{position}")
        return [*lines, f"    return [{', '.join(names)}]"]

    def _forward(self, body: Body) -> list[str]:
        more = [name for name in ("weights", "device") if any(name in line for line in body.forward)]
        results = ", ".join(name for name, _ in body.results)
        return [
            "",
            "",
            f"def forward({', '.join([*body.inputs, 'weights', 'device'])}, check=no_check):",
            '    """Runs the model; returns its results on the device. check: called with the result of each module."""',
            *([] if more else ["    del weights, device"]),
            *body.forward,
            f"    return [{results}]",
        ]

    def _main(self, body: Body) -> list[str]:
        forms = [f"    ({form(holding)})," for _, holding in body.results]
        return ["", "", *MAIN.strip("\n").replace("FORMS", "\n".join(forms)).splitlines()]


def fragment(text: str) -> list[str]:
    return ["", "", *text.strip("\n").splitlines()]


MAIN = '''
def random_input(shape, dtype):
    return torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 2, shape, dtype=dtype)


def parameters_of(model):
    """Returns the parameters and buffers of a model by name, those that are not saved with it among them."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach() for name, tensor in named}


def main():
    parser = argparse.ArgumentParser(description="Runs the model on a device.")
    parser.add_argument("--state-dict", help="file of torch.save with the model's state_dict")
    parser.add_argument("--compare", action="store_true", help="compare each module with torch; needs a card")
    options = parser.parse_args()

    torch.manual_seed(0)
    model, call = build_model()
    model = model.eval().float()
    if options.state_dict:
        model.load_state_dict(torch.load(options.state_dict, map_location="cpu", weights_only=True))
    tensors = [random_input(shape, dtype) for shape, dtype in INPUTS]

    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_BYTES)
    try:
        if options.compare and not keeps_values(device):
            raise SystemExit("--compare: this device does not keep values, so it is virtual: nothing can be compared")
        run = TorchRun(model, call, tensors) if CONSTANTS or options.compare else None
        prepared = prepare_weights(parameters_of(model), run.constants if run else {}, device)
        weights = place_weights(prepared, device)

        def check(name, tensor, axes, order, shape):
            expected = run.outputs.get(name)
            if expected is None or list(expected.shape) != list(shape):
                print(f"{name}: not compared, since torch's module has no single result {shape}")
                return
            print(f"{name}: PCC {pcc(to_torch(tensor, axes, order, shape).float(), expected.float()):.6f}")

        placed = place_inputs(tensors, device)
        results = forward(*placed, weights, device, check=check if options.compare else no_check)
        results = [to_torch(tensor, *how) for tensor, how in zip(results, RESULTS)]
        if options.compare:
            for number, (actual, expected) in enumerate(zip(results, flat(run.result))):
                print(f"result {number} {list(actual.shape)}: PCC {pcc(actual.float(), expected.float()):.6f}")
        else:
            print(f"ran; results of {', '.join(str(list(tensor.shape)) for tensor in results)}, whose values were not compared")
    finally:
        ttnn.close_device(device)


RESULTS = [  # of the model: axes on the device, their order in torch, torch's shape
FORMS
]

if __name__ == "__main__":
    main()
'''

__all__ = ["Expression", "ProgramText"]
