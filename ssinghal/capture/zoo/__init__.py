"""Builds the models of each package, without weights.

Every module here has ``names()``, the models of its package, and ``build(name, inputs) -> BuiltModel``, which imports the
package, under the meta device. ``names()`` reads files, except for transformers: a wrong name costs no import of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ssinghal.capture.request import PACKAGES
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureUnavailable, unknown

DTYPE = "bfloat16"  # of floating-point parameters and activations, as models run on these boards


@dataclass(frozen=True)
class BuiltModel:
    """A model ready to run. ``root``: the module whose paths are recorded. ``run(*tensors)`` calls forward, or the part of it
    that depends on shapes alone; ``stopped``: what of the model it leaves out. ``config``: what it was built from.

    ``dtypes``: names of the inputs' dtypes where they are not all the model's own. ``own_inputs``: of a factory,
    where ``inputs`` have another batch than it brought.
    """

    root: Any
    run: Callable[..., Any]
    config: str
    inputs: tuple[Shape, ...]
    dtypes: tuple[str, ...] = ()
    stopped: str = ""
    counted: Any = None
    own_inputs: tuple[Shape, ...] = ()

    @property
    def parameters(self) -> int:
        """Returns the number of parameters of the part that runs."""
        return sum(p.numel() for p in (self.counted or self.root).parameters())

    def with_batch(self, batch: int) -> BuiltModel:
        """Returns the model with another batch: the first size of the first input, and of the others that have the same."""
        own = self.inputs[0][0]
        inputs = tuple((batch, *shape[1:]) if shape[:1] == (own,) else shape for shape in self.inputs)
        return replace(self, inputs=inputs, own_inputs=self.inputs)


def build(model: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    """Builds the model ``package/name`` for inputs of these shapes. CaptureUnavailable if it is unknown or not installed."""
    package, _, name = model.partition("/")
    extra, _ = PACKAGES[package]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise CaptureUnavailable(f"capture {model}: {error.name} is not installed; pip install 'ssinghal[{extra}]'") from error
    zoo = import_module(f"{__name__}.{package}_models")
    check_name(model)
    built: BuiltModel = zoo.build(name, inputs)
    return built


def check_name(model: str) -> None:
    """Raises CaptureUnavailable with the nearest names if an installed package has no model of this name."""
    package, _, name = model.partition("/")
    plain = name.partition(".")[0] if package == "timm" else name  # timm tags names with the weights: resnet50.a1_in1k
    names = import_module(f"{__name__}.{package}_models").names()
    if plain not in names:
        raise CaptureUnavailable(unknown(f"{package} model", plain, names))


def package_folder(package: str) -> Path:
    """Returns the folder of an installed package, without importing it."""
    spec = find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or ())) if spec is not None else "")


def image_size(model: str, inputs: Sequence[Shape]) -> tuple[int, int]:
    """Returns height and width of the one image [N, 3, H, W] that most models take."""
    if len(inputs) != 1 or len(inputs[0]) != 4:
        raise CaptureUnavailable(
            f"capture {model}: takes one input [N, C, H, W]; got {', '.join(str(list(s)) for s in inputs)}"
        )
    return inputs[0][2], inputs[0][3]
