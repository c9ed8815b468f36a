"""timm: every model that it lists, built for the input's size if a model is bound to one."""

from __future__ import annotations

from typing import Any

from ssinghal.capture.zoo import BuiltModel, image_size
from ssinghal.core.tensors import Shape


def names() -> list[str]:
    import timm

    return list(timm.list_models())


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    import timm

    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    options: dict[str, Any] = {}
    if config is not None and config.fixed_input_size:
        options["img_size"] = image_size(name, inputs)
    model = timm.create_model(name, pretrained=False, **options)
    return BuiltModel(model, model, name, inputs)
