"""diffusers: the parts of image and video generators that work on maps, with their published or default configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.capture.zoo import DTYPE, BuiltModel
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError


@dataclass(frozen=True)
class ModelPart:
    """``part`` of the class (all of it if empty), which takes a tensor of ``rank``. ``more``: shapes of further inputs.

    A part is a module, or a method that runs the module ``runs``.
    """

    cls: str
    rank: int
    part: str = ""
    runs: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[Shape, ...] = ()


_SD_VAE = {
    "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "latent_channels": 4, "sample_size": 512,
    "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4,
}  # fmt: skip
PARTS = {
    "mochi-decoder": ModelPart("AutoencoderKLMochi", 5, "decoder"),
    "mochi-encoder": ModelPart("AutoencoderKLMochi", 5, "encoder"),
    "cogvideox-decode": ModelPart(
        "AutoencoderKLCogVideoX", 5, "decode", runs="decoder"
    ),  # as pipelines call it, in frame batches
    "cogvideox-decoder": ModelPart("AutoencoderKLCogVideoX", 5, "decoder"),
    "cogvideox-encoder": ModelPart("AutoencoderKLCogVideoX", 5, "encoder"),
    "ltx-decoder": ModelPart("AutoencoderKLLTXVideo", 5, "decoder"),
    "sd-vae-decoder": ModelPart("AutoencoderKL", 4, "decoder", options=_SD_VAE),
    "sd-vae-encoder": ModelPart("AutoencoderKL", 4, "encoder", options=_SD_VAE),
    "taesd-decoder": ModelPart("AutoencoderTiny", 4, "decoder"),
    "unet2d": ModelPart("UNet2DModel", 4, more=((1,),)),
    "sd-unet": ModelPart("UNet2DConditionModel", 4, options={"cross_attention_dim": 768}, more=((1,), (1, 77, 768))),
}


def names() -> list[str]:
    return sorted(PARTS)


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    import diffusers

    part = PARTS[name]
    if len(inputs) != 1 or len(inputs[0]) != part.rank:
        listed = ", ".join(str(list(s)) for s in inputs)
        raise CaptureError(f"capture diffusers/{name}: takes one input of rank {part.rank}; got {listed}")
    root = getattr(diffusers, part.cls)(**part.options)
    run = getattr(root, part.part) if part.part else root
    shapes = (inputs[0], *(_of_batch(shape, inputs[0][0]) for shape in part.more))
    dtypes = tuple("int64" if shape == (inputs[0][0],) else DTYPE for shape in shapes) if part.more else ()
    options = ", ".join(f"{key}={value!r}" for key, value in part.options.items())
    config = f"{part.cls}({options})" + (f".{part.part}" if part.part else "")
    counted = getattr(root, part.runs) if part.runs else run
    return BuiltModel(root, run, config, shapes, dtypes, counted=counted)


def _of_batch(shape: Shape, batch: int) -> Shape:
    return (batch, *shape[1:])
