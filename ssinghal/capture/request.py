"""Describes what to capture: a model, its inputs and the level of the calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.core.tensors import Shape, TextEnum
from ssinghal.errors import CaptureError, unknown

DEFAULT_TIMEOUT_S = 600.0
# package -> (the extra that installs it, further packages whose versions decide what a capture of it holds)
PACKAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "torchvision": ("capture", ()),
    "timm": ("capture", ("torchvision",)),
    "transformers": ("capture", ("timm",)),
    "diffusers": ("capture", ()),
    "ultralytics": ("ultralytics", ("torchvision",)),
}


class Level(TextEnum):
    """Which calls are recorded.

    ``TORCH``: what the model's code calls (linear, batch_norm, scaled_dot_product_attention), nearest to TTNN's functions.
    ``ATEN``: what torch makes of it on the meta device (addmm, native_batch_norm, the parts of attention).
    """

    ATEN = "aten"
    TORCH = "torch"


@dataclass(frozen=True)
class CaptureRequest:
    """A model as ``package/name``, or the user's own as ``factory`` = ``package.module:function``.

    ``inputs``: the shape of the image or latent; a model that takes more builds the others itself. A factory is called with it
    if it takes sizes; of one that brings its own inputs it may change the batch, and may be left out.
    ``trace``: the calls in their order, with the tensors' lifetimes, instead of a catalog.
    """

    model: str = ""
    factory: str = ""
    inputs: tuple[Shape, ...] = ()
    level: Level = Level.ATEN
    trace: bool = False

    def __post_init__(self) -> None:
        if bool(self.model) == bool(self.factory):
            raise CaptureError("capture: give either a model (package/name) or --factory package.module:function")
        package, _, name = self.model.partition("/")
        if self.model and (package not in PACKAGES or not name):
            raise CaptureError(unknown("model package", package, PACKAGES) + "; models are named package/name")
        if self.model and not self.inputs:
            raise CaptureError(f"capture {self.model}: --input is missing, e.g. --input 1,3,640,640")
        if self.trace and self.level is not Level.TORCH:
            raise CaptureError(f"capture {self.what}: a trace is recorded at level torch; leave --level {self.level} out")
        for size in (size for shape in self.inputs for size in shape):
            if size < 1:
                raise CaptureError(f"capture {self.what}: size {size} of the input is not a whole number from 1")
        if self.factory and not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", self.factory):
            raise CaptureError(f"factory {self.factory!r}: expected package.module:function")

    @property
    def what(self) -> str:
        return self.model or self.factory

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "factory": self.factory,
            "inputs": self.inputs,
            "level": self.level.value,
            "trace": self.trace,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> CaptureRequest:
        return CaptureRequest(
            data["model"], data["factory"], tuple(map(tuple, data["inputs"])), Level(data["level"]), data["trace"]
        )
