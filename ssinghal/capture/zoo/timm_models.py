"""timm: every model that it lists, built for the input's size if a model is bound to one."""

from __future__ import annotations

import re
from typing import Any

from ssinghal.capture.zoo import BuiltModel, image_size, package_folder
from ssinghal.core.tensors import Shape

_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)", re.MULTILINE)


def names() -> list[str]:
    files = (package_folder("timm") / "models").rglob("*.py")
    return sorted(name for file in files for name in _REGISTERED.findall(file.read_text(encoding="utf-8")))


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    import timm

    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    options: dict[str, Any] = {}
    if config is not None and config.fixed_input_size:
        options["img_size"] = image_size(name, inputs)
    model = timm.create_model(name, pretrained=False, **options)
    return BuiltModel(model, model, name, inputs)
