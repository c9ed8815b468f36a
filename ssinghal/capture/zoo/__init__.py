"""Builds the models of each package, without weights.

Every module here has ``names()``, the models of its package, and ``build(name, inputs) -> BuiltModel``. Each imports its
package inside these functions, under the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ssinghal.capture.request import PACKAGES
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError, unknown

DTYPE = "bfloat16"  # of floating-point parameters and activations, as models run on these boards


@dataclass(frozen=True)
class BuiltModel:
    """A model ready to run. ``root``: the module whose paths are recorded. ``run(*tensors)`` calls forward, or the part of it
    that depends on shapes alone; ``stopped``: what of the model it leaves out. ``config``: what it was built from.

    ``dtypes``: names of the inputs' dtypes where they are not all the model's own.
    """

    root: Any
    run: Callable[..., Any]
    config: str
    inputs: tuple[Shape, ...]
    dtypes: tuple[str, ...] = ()
    stopped: str = ""
    counted: Any = None

    @property
    def parameters(self) -> int:
        """Returns the number of parameters of the part that runs."""
        return sum(p.numel() for p in (self.counted or self.root).parameters())


def build(model: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    """Builds the model ``package/name`` for inputs of these shapes. CaptureError if it is unknown or not installed."""
    package, _, name = model.partition("/")
    extra, _ = PACKAGES[package]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise CaptureError(f"capture {model}: {error.name} is not installed; pip install 'ssinghal[{extra}]'") from error
    zoo = import_module(f"{__name__}.{package}_models")
    plain = name.partition(".")[0] if package == "timm" else name  # timm tags names with the weights: resnet50.a1_in1k
    if plain not in (names := zoo.names()):
        raise CaptureError(unknown(f"{package} model", plain, names))
    built: BuiltModel = zoo.build(name, inputs)
    return built


def image_size(model: str, inputs: Sequence[Shape]) -> tuple[int, int]:
    """Returns height and width of the one image [N, 3, H, W] that most models take."""
    if len(inputs) != 1 or len(inputs[0]) != 4:
        raise CaptureError(f"capture {model}: takes one input [N, C, H, W]; got {', '.join(str(list(s)) for s in inputs)}")
    return inputs[0][2], inputs[0][3]
