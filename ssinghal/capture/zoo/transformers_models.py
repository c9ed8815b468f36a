"""transformers: vision models by the published names of their configurations, and by model type with its default one."""

from __future__ import annotations

from typing import Any

from ssinghal.capture.zoo import BuiltModel, image_size
from ssinghal.core.tensors import Shape

# name -> (model type, how its configuration differs from the type's default)
_MIT = {"hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "segformer-b0": ("segformer", {}),
    "segformer-b1": ("segformer", {**_MIT, "decoder_hidden_size": 256}),
    "segformer-b2": ("segformer", {**_MIT, "depths": [3, 4, 6, 3]}),
    "segformer-b3": ("segformer", {**_MIT, "depths": [3, 4, 18, 3]}),
    "segformer-b4": ("segformer", {**_MIT, "depths": [3, 8, 27, 3]}),
    "segformer-b5": ("segformer", {**_MIT, "depths": [3, 6, 40, 3]}),
    "detr-resnet-50": ("detr", {}),
    "detr-resnet-50-dc5": ("detr", {"dilation": True}),
    "rtdetr-r50": ("rt_detr", {}),
    "rtdetr-v2-r50": ("rt_detr_v2", {}),
    "swin-tiny": ("swin", {}),
    "swin-base": ("swin", {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]}),
    "swinv2-tiny": ("swinv2", {}),
    "vit-base": ("vit", {}),
    "vit-large": ("vit", _LARGE),
    "dinov2-small": ("dinov2", {"hidden_size": 384, "num_attention_heads": 6}),
    "dinov2-base": ("dinov2", {}),
    "dinov2-large": ("dinov2", {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}),
    "deit-base": ("deit", {}),
    "yolos-base": ("yolos", {}),
    "depth-anything-small": ("depth_anything", {}),
    "mobilevit-small": ("mobilevit", {}),
}
TASKS = ("OBJECT_DETECTION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "IMAGE_CLASSIFICATION")


def names() -> list[str]:
    return sorted({*PRESETS, *_classes()})


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    import transformers

    size = image_size(name, inputs)
    model_type, changes = PRESETS.get(name, (name, {}))
    config = transformers.CONFIG_MAPPING[model_type](**changes)
    if hasattr(config, "image_size"):
        config.image_size = size
    for attribute in ("use_pretrained_backbone", "use_cache"):
        if hasattr(config, attribute):
            setattr(config, attribute, False)
    classes = _classes()[model_type]
    model = getattr(transformers, classes)(config)
    return BuiltModel(model, lambda x: model(pixel_values=x), f"{classes}({type(config).__name__})", inputs)


def _classes() -> dict[str, str]:
    """Returns for each model type the class with a head, of the first task that has one."""
    from transformers.models.auto import modeling_auto

    classes: dict[str, str] = {}
    for task in TASKS:
        for model_type, name in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").items():
            classes.setdefault(model_type, name if isinstance(name, str) else name[0])
    return classes
